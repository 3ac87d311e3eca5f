"""Compares our load generator with vegeta and k6: the same requests, from exported targets, to a stub of fixed time."""

import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.export import ExportedTraffic, exported_traffic, write_export
from evaluator.load.points.figures import load_percentiles
from evaluator.load.points.validity import MOST_LAG_MS
from evaluator.load.sending.drives import run_point
from evaluator.load.sending.traffic import LoadTarget
from tests.soak.outcome import Bar, Outcome
from tests.support.go_programs import go_program
from tests.support.processes import ROOT

STUB_MS = 5
RATE = 200
SECONDS = 10.0
ROUNDS = 5
# A turn in which foreign load delayed our sends is repeated, so often that there are at most so many turns a round.
TURNS_A_ROUND = 5
MODULES = {"vegeta": "github.com/tsenart/vegeta/v12@v12.13.0", "k6": "go.k6.io/k6@v1.8.1"}
SHARES = ("p50", "p95", "p99")
# Apart by at most so much, whichever is larger.
MOST_SHARE, MOST_MS = 0.05, 0.5
SAYS = (
    f"A stub answers after {STUB_MS} ms. Our generator, vegeta and k6 take turns and send it the same requests at "
    f"{RATE} a second (`load --export`), {SECONDS:.0f} s each, {ROUNDS} times; a figure is the median over its runs. "
    "Ours counts from the planned send time, the others from sending. Two figures agree when they are at most 5 % or "
    "0.5 ms apart, whichever is larger. A turn in which ours calls its own times not valid (a send lag with a p99 of "
    "1 ms or more: the machine was busy) ends there and is taken again."
)

# Milliseconds, and `requests`.
Percentiles = Mapping[str, float]
Tool = Callable[[Path, ExportedTraffic, Path], Awaitable[Percentiles]]


async def run(seed: int, rounds: int = ROUNDS) -> Outcome:
    """Compares the tools over `rounds` valid turns. Raises ProgramMissingError without Go or network."""
    percentiles = await measured(seed, rounds, SECONDS)
    turns = len(percentiles["ours"])
    assert turns == rounds, f"the machine was too busy: {turns} of {rounds * TURNS_A_ROUND} turns were valid"
    return judged(seed, percentiles)


async def measured(
    seed: int, rounds: int, seconds: float, others: Collection[str] = tuple(MODULES)
) -> dict[str, list[Percentiles]]:
    """Returns what each tool saw in each valid turn, of which there may be too few. Raises ProgramMissingError."""
    programs = {name: go_program(name, MODULES[name]) for name in others}
    plan = LoadPlan(rates=(RATE,), seconds=seconds, arrivals="constant", generators=1)
    percentiles: dict[str, list[Percentiles]] = {"ours": [], **{name: [] for name in others}}
    with tempfile.TemporaryDirectory(prefix="agreement-") as name:
        folder = Path(name)
        async with fixed_time_stub() as url:
            target = stub_target(url)
            traffic = exported_traffic(target, "bm25", RATE, plan, seed)
            write_export(folder, [traffic])
            for _ in range(rounds * TURNS_A_ROUND):
                ours = await _ours(target, plan, seed)
                if ours is None:
                    continue
                percentiles["ours"].append(ours)
                for tool, program in programs.items():
                    percentiles[tool].append(await TOOLS[tool](program, traffic, folder))
                if len(percentiles["ours"]) == rounds:
                    break
    return percentiles


@asynccontextmanager
async def fixed_time_stub(ms: float = STUB_MS) -> AsyncIterator[str]:
    """Yields the URL of a stub in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.soak.agreement_stub", str(ms), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        port = int(await asyncio.wait_for(process.stdout.readline(), 30))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


def stub_target(url: str) -> LoadTarget:
    """Returns 50 queries of the stub."""
    queries = tuple(f"q{number}" for number in range(50))
    bodies = {("bm25", name): json.dumps({"query": name, "pipeline": "bm25", "top": 10}).encode() for name in queries}
    return LoadTarget(
        url=f"{url}/v1/collections/stub/search", top=10, deadline_ms=10_000, queries=queries, bodies=bodies,
        excluded=frozenset(), reranks={"bm25": {}}, caches=False,
    )  # fmt: skip


async def _ours(target: LoadTarget, plan: LoadPlan, seed: int) -> Percentiles | None:
    """Returns None where foreign load delayed the sends."""
    point = await run_point(target, "bm25", RATE, plan.seconds, plan, seed=seed, measured=None)
    assert all(sample.error is None for sample in point.samples)
    lag = load_percentiles(
        [sample.send_lag_ms for sample in point.samples if sample.send_lag_ms is not None]
    ).p99.unchecked_ms
    assert lag is not None, "too few requests for a p99"
    if lag >= MOST_LAG_MS:
        return None
    figures = load_percentiles([sample.counted_ms for sample in point.samples])
    times = {"p50": figures.p50, "p95": figures.p95, "p99": figures.p99}
    checked = {name: ms for name, time in times.items() if (ms := time.unchecked_ms) is not None}
    return {**checked, "requests": len(point.samples)}


async def _vegeta(program: Path, traffic: ExportedTraffic, folder: Path) -> Percentiles:
    rate = f"{traffic.fraction.numerator}/{traffic.fraction.denominator}s"
    words = (f"-targets={traffic.name}.targets.jsonl", f"-rate={rate}", f"-duration={traffic.seconds * 1000:.0f}ms")
    bounds = (f"-timeout={traffic.timeout_ms}ms", f"-max-workers={traffic.task.in_flight}", "-output=results")
    await _executed(folder, str(program), "attack", "-format=json", *words, *bounds)
    report = json.loads(await _executed(folder, str(program), "report", "-type=json", "results"))
    assert report["status_codes"].keys() == {"200"}, report["errors"]
    latencies = {share: report["latencies"][f"{share[1:]}th"] / 1e6 for share in SHARES}
    return {**latencies, "requests": report["requests"]}


async def _k6(program: Path, traffic: ExportedTraffic, folder: Path) -> Percentiles:
    words = ("run", "--quiet", "--no-usage-report", "--summary-export=summary.json", f"{traffic.name}.js")
    await _executed(folder, str(program), *words)
    metrics = json.loads((folder / "summary.json").read_text())["metrics"]
    assert metrics["http_req_failed"]["value"] == 0
    latencies = {share: metrics["http_req_duration"][f"p({share[1:]})"] for share in SHARES}
    return {**latencies, "requests": metrics["http_reqs"]["count"]}


TOOLS: Mapping[str, Tool] = {"vegeta": _vegeta, "k6": _k6}


async def _executed(folder: Path, *words: str) -> str:
    """Runs a program in a folder; returns what it printed."""
    process = await asyncio.create_subprocess_exec(
        *words, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    printed, complaints = await process.communicate()
    assert process.returncode == 0, complaints.decode()
    return printed.decode()


def _listed(sent: Mapping[str, list[int]]) -> str:
    return "; ".join(f"{tool} {', '.join(map(str, numbers))}" for tool, numbers in sent.items())


def agree(one_ms: float, other_ms: float) -> bool:
    """Returns whether two figures are at most 5 % of the other, or 0.5 ms, apart."""
    return abs(one_ms - other_ms) <= max(MOST_SHARE * other_ms, MOST_MS)


def judged(seed: int, percentiles: Mapping[str, list[Percentiles]]) -> Outcome:
    """Returns the figures with their bars."""
    medians = {
        tool: {share: statistics.median(turn[share] for turn in runs) for share in SHARES}
        for tool, runs in percentiles.items()
    }
    bars = [
        Bar(
            f"{share} agrees with {tool}",
            f"{medians['ours'][share]:.2f} ms, {tool} {medians[tool][share]:.2f} ms",
            agree(medians["ours"][share], medians[tool][share]),
            needs_cores=True,  # foreign load that meets one tool alone lengthens its times
        )
        for tool in percentiles
        if tool != "ours"
        for share in SHARES
    ]
    # The turn that foreign load met least: it still shows a tool that adds time to every request.
    least = {tool: min(turn["p50"] for turn in runs) for tool, runs in percentiles.items()}
    bars += [
        Bar(
            f"the lowest p50 of a turn agrees with {tool}",
            f"{least['ours']:.2f} ms, {tool} {least[tool]:.2f} ms",
            agree(least["ours"], least[tool]),
        )
        for tool in percentiles
        if tool != "ours"
    ]
    sent = {tool: [int(turn["requests"]) for turn in runs] for tool, runs in percentiles.items()}
    numbers = [number for runs in sent.values() for number in runs]
    # k6 may begin one more at the very end of the time; without a free core it drops some.
    same = max(numbers) - min(numbers) <= 1
    bars.append(Bar("every tool sends as many requests", _listed(sent), same, needs_cores=True))
    rows = [
        (str(number), tool, *(f"{figures[share]:.2f}" for share in SHARES), str(int(figures["requests"])))
        for number, turn in enumerate(zip(*percentiles.values(), strict=True), start=1)
        for tool, figures in zip(percentiles, turn, strict=True)
    ]
    columns = ("turn", "tool", "p50 ms", "p95 ms", "p99 ms", "requests")
    broken = tuple(f"{bar.promise}: {bar.measured}" for bar in bars if not bar.held)
    return Outcome("agreement", SAYS, seed, columns, tuple(rows), tuple(bars), broken)
