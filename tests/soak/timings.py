"""Measures what it costs the gateway to report the services' own times: backends with and without Server-Timing."""

import statistics
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.soak.cost import PIPELINES, QUERIES, ROUNDS, cost_ms, measured_gateway, stub_urls
from tests.soak.cost_stub import TIMINGS
from tests.soak.outcome import Bar, Outcome
from tests.support.processes import ROOT, Process

MOST_RATIO = 1.05
SAYS = (
    "Two gateways of the same commit take turns: the backends of one send the Server-Timing header of our services, "
    "those of the other none. Load and CPU are those of the soak `cost`. The ratio is the median of the rounds' ratios."
)


async def run(seed: int, size: int = ROUNDS) -> Outcome:
    """Compares over `size` rounds."""
    queries = QUERIES if size >= ROUNDS else QUERIES // 5
    costs: dict[tuple[str, str], list[float]] = {(name, told): [] for name in PIPELINES for told in ("on", "off")}
    async with _gateways() as gateways:
        for pipeline in PIPELINES:
            for told in gateways:
                await cost_ms(gateways[told], pipeline, queries // 3)
            for number in range(size):
                for told in sorted(gateways, reverse=bool((number + seed) % 2)):
                    costs[pipeline, told].append(await cost_ms(gateways[told], pipeline, queries))
    return _outcome(seed, costs)


@asynccontextmanager
async def _gateways() -> AsyncIterator[dict[str, Process]]:
    async with AsyncExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-"))
        started: dict[str, Process] = {}
        for told, options in (("on", [TIMINGS]), ("off", [])):
            urls = await stack.enter_async_context(stub_urls(*options))
            started[told] = await measured_gateway(urls, ROOT, Path(name) / f"{told}.log")
            stack.callback(started[told].kill)
        yield started


def _outcome(seed: int, costs: Mapping[tuple[str, str], Sequence[float]]) -> Outcome:
    rows, bars = [], []
    for pipeline in PIPELINES:
        on, off = costs[pipeline, "on"], costs[pipeline, "off"]
        ratios = [one / other for one, other in zip(on, off, strict=True)]
        ratio, spread = statistics.median(ratios), f"{min(ratios):.3f} to {max(ratios):.3f}"
        medians = (f"{statistics.median(off):.2f}", f"{statistics.median(on):.2f}")
        rows.append((pipeline, str(len(ratios)), *medians, f"{ratio:.3f}", spread))
        promise = f"telling costs at most 5 % of CPU: {pipeline}"
        bars.append(Bar(promise, f"{ratio:.3f}x ({spread})", ratio <= MOST_RATIO, needs_cores=True))
    columns = ("pipeline", "rounds", "ms a query, off", "ms a query, on", "ratio", "of the rounds")
    return Outcome("timings", SAYS, seed, columns, tuple(rows), tuple(bars), ())
