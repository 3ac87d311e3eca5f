"""Measures the gateway's CPU time a query at 64 in flight, alternating this checkout with another one."""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from tests.soak import wire
from tests.soak.outcome import Bar, Outcome, commit
from tests.support import secured, vitals
from tests.support.processes import ROOT, Process, gateway

# The commit before connections, bodies and answers were bounded.
BEFORE = "9f5c2bd59a"
IN_FLIGHT = 64
QUERIES = 1_500
MOST_RATIO = 1.10
ROUNDS = 7
PIPELINES = ("hybrid", "hybrid-rerank")
SAYS = (
    f"Two gateways over the same stub backends take turns. {IN_FLIGHT} kept connections send one query after another, "
    f"{QUERIES} a round and gateway. CPU is user and system time of the gateway's process. The ratio is the median of "
    "the rounds' ratios."
)


@contextmanager
def earlier_checkout(commit_wanted: str = BEFORE) -> Iterator[Path]:
    """Yields a checkout of an earlier commit in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        place = Path(name) / "before"
        subprocess.run(
            ["git", "worktree", "add", "--detach", place, commit_wanted], cwd=ROOT, check=True, capture_output=True
        )
        try:
            yield place
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", place], cwd=ROOT, check=True, capture_output=True)


async def run(seed: int, size: int = ROUNDS, against: Path | None = None) -> Outcome:
    """Compares over `size` rounds with the checkout `against`, or with the commit BEFORE."""
    if against is not None:
        return await _compare(seed, size, against)
    with earlier_checkout() as place:
        return await _compare(seed, size, place)


async def _compare(seed: int, size: int, other: Path) -> Outcome:
    trees = {"this": ROOT, "other": other}
    queries = QUERIES if size >= ROUNDS else QUERIES // 5
    costs: dict[tuple[str, str], list[float]] = {(name, tree): [] for name in PIPELINES for tree in trees}
    async with _gateways(trees) as gateways:
        for pipeline in PIPELINES:
            for tree in trees:
                await cost_ms(gateways[tree], pipeline, queries // 3)
            for number in range(size):
                for tree in sorted(trees, reverse=bool((number + seed) % 2)):
                    costs[pipeline, tree].append(await cost_ms(gateways[tree], pipeline, queries))
    return _outcome(seed, trees, costs)


@asynccontextmanager
async def _gateways(trees: Mapping[str, Path]) -> AsyncIterator[dict[str, Process]]:
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        started: dict[str, Process] = {}
        try:
            async with stub_urls() as urls:
                for tree, root in trees.items():
                    started[tree] = await measured_gateway(urls, root, Path(name) / f"{tree}.log")
                yield started
        finally:
            for one in started.values():
                one.kill()


@asynccontextmanager
async def stub_urls(*options: str) -> AsyncIterator[dict[str, str]]:
    """Yields the URL of each stub backend, by family; `options` are those of cost_stub."""
    stub = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.soak.cost_stub", *options, cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert stub.stdout is not None
        ports = json.loads(await stub.stdout.readline())
        yield {family: f"http://127.0.0.1:{port}" for family, port in ports.items()}
    finally:
        stub.kill()
        await stub.wait()


async def measured_gateway(urls: Mapping[str, str], root: Path, log: Path) -> Process:
    """Starts a gateway over stub backends and waits until it is ready."""
    one = gateway(urls, root)
    one.environment["GATEWAY_CONNECT_S"] = "10"  # a busy machine must not degrade what is measured
    one.start(log)
    try:
        await one.ready()
    except BaseException:
        one.kill()
        raise
    return one


async def cost_ms(process: Process, pipeline: str, queries: int) -> float:
    """Measures CPU milliseconds of the gateway's process a query."""
    body = {"query": "warm light for loose tea", "pipeline": pipeline}
    request = wire.written("POST", "/v1/collections/demo/search", body, {"x-deadline-ms": "60000"})
    request = secured.authorized(process.port, request)
    left = iter(range(queries))

    async def caller() -> int:
        reader, writer = await wire.connected(process.port)
        done = 0
        for _ in left:
            writer.write(request)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            content = await reader.readexactly(length)
            assert answer.startswith(b"HTTP/1.1 200"), content
            assert b'"degraded":[]' in content, content
            done += 1
        writer.close()
        return done

    started = vitals.cpu_s(process.pid)
    done = sum(await asyncio.gather(*(caller() for _ in range(IN_FLIGHT))))
    return (vitals.cpu_s(process.pid) - started) / done * 1000


def _outcome(seed: int, trees: Mapping[str, Path], costs: Mapping[tuple[str, str], list[float]]) -> Outcome:
    rows, bars = [], []
    for pipeline in PIPELINES:
        ours, theirs = costs[pipeline, "this"], costs[pipeline, "other"]
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        ratio = statistics.median(ratios)
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        cells = (f"{statistics.median(theirs):.2f}", f"{statistics.median(ours):.2f}", f"{ratio:.3f}", spread)
        rows.append((pipeline, str(len(ratios)), *cells))
        bars.append(
            Bar(f"CPU within 10 %: {pipeline}", f"{ratio:.3f}x ({spread})", ratio <= MOST_RATIO, needs_cores=True)
        )
    at = {tree: commit(root) for tree, root in trees.items()}
    columns = (
        "pipeline",
        "rounds",
        f"ms a query at {at['other']}",
        f"ms a query at {at['this']}",
        "ratio",
        "of the rounds",
    )
    return Outcome("cost", SAYS, seed, columns, tuple(rows), tuple(bars), ())
