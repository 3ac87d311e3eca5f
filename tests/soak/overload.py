"""Drives a whole stack at twice and four times what it carries, and back: goodput, refusals, recovery, fairness."""

import asyncio
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.points.figures import load_percentiles
from evaluator.load.sending.drives import run_closed, run_point
from evaluator.load.sending.samples import LoadSample
from evaluator.load.sending.traffic import LoadTarget
from services.chassis.admission.cores import available_cores
from services.contracts.query import SearchRequest
from tests.soak import wire
from tests.soak.outcome import Bar, Outcome
from tests.soak.stack import COLLECTION, LoadedStack, loaded_stack, text

SECONDS = 30
DEADLINE_MS = 1_000
PIPELINES = ("bm25", "hybrid", "bm25-rerank")
QUERIES = 200
# In flight, closed loop, to find what the stack carries: doubled from here while that carries MORE of it. Re-ranking
# lasts nearly as long as the deadline while few ask, so few in flight would find a hundredth of what is carried.
IN_FLIGHT = (8, 16, 32, 64, 128, 256, 512)
MORE = 1.1
LEAST_GOODPUT = {2.0: 0.9, 4.0: 0.8}
REFUSED_WITHIN_S = 0.01
# After an overload, the load falls to this share of what the stack carries.
AFTER = 0.5
RECOVERY_S = 2.0
DEEP, DEEP_IN_FLIGHT, DEEP_TOP = "hybrid", 16, 1_000
MOST_SLOWER = 1.5
PLAN = LoadPlan(rates=(1.0,), deadline_ms=DEADLINE_MS)
SAYS = (
    "{engines}, and the default models. What a pipeline carries is found with "
    f"{IN_FLIGHT[0]} requests in flight, doubled while that carries a tenth more. Then requests arrive (Poisson) at "
    f"that rate, at twice and at four times of it, with a deadline of {DEADLINE_MS} ms. In time: answered within the "
    "deadline. *Peak*: the most answers in time per second, of that search and of the three loads. *Of the rest*: by "
    "the cores that the generators leave at that load and at the peak, which they take from the stack. Refusals are "
    "timed by the gateway from the head of a request, and judged at twice and at four times. "
    f"After the four times the load falls to {AFTER:g} of what is carried; what is sent "
    f"more than {RECOVERY_S:g} s later counts. *Degraded*: answers, by the reasons of their degraded stages. *Opened*: "
    "breakers of the gateway meanwhile, by its own count. *Else*: lost otherwise; a generator drops what comes "
    f"while {PLAN.most_in_flight:,} are unanswered. At last ordinary searches at {AFTER:g} of what is carried, found "
    f"anew, alone and beside {DEEP_IN_FLIGHT} connections that ask for {DEEP_TOP} hits each without pause."
)
COLUMNS = (
    "pipeline",
    "load",
    "a second",
    "in time per second",
    "p50 ms",
    "p99 ms",
    "refused",
    "of them < 10 ms",
    "degraded",
    "opened",
    "else",
    "generators' cores",
)
# What load alone may lose or degrade an answer for. Texts that came too late are reported as `no_document_store`.
LATE = ("late", "timeout", "backend late")
BUSY = ("deadline", "overloaded", "timeout", "no_document_store")


@dataclass(frozen=True, slots=True)
class GatewayCounts:
    """Counts in the metrics of the gateway."""

    refused: float
    refused_in_time: float  # within REFUSED_WITHIN_S
    opened: Counter[str]  # breakers, by backend

    def since(self, before: "GatewayCounts") -> "GatewayCounts":
        return GatewayCounts(
            self.refused - before.refused, self.refused_in_time - before.refused_in_time, self.opened - before.opened
        )


@dataclass(frozen=True, slots=True)
class Drive:
    """What one load met."""

    samples: Sequence[LoadSample]
    seconds: float
    counts: GatewayCounts
    generators: float  # cores that they took

    def of_the_rest(self, peak: float) -> float:
        """Returns the goodput for a core that the generators leave, relative to that at the peak."""
        cores, each = available_cores(), self.generators * self.seconds / max(1, len(self.samples))
        return self.goodput / (cores - self.generators) * (cores - each * peak) / peak

    @property
    def refused_in_time(self) -> float:
        """Share of the gateway's refusals; 1 where there were none."""
        return self.counts.refused_in_time / self.counts.refused if self.counts.refused else 1.0

    @property
    def goodput(self) -> float:
        return sum(sample.outcome == "answered" for sample in self.samples) / self.seconds

    @property
    def p95_ms(self) -> float:
        return load_percentiles([sample.counted_ms for sample in self.samples]).p95.unchecked_ms or 0.0

    @property
    def lost(self) -> list[LoadSample]:
        """What was neither answered in time nor refused."""
        return [sample for sample in self.samples if sample.outcome != "answered" and _lost_as(sample) != "overloaded"]

    def errors(self) -> Counter[str]:
        """Returns what was lost, by kind."""
        return Counter(map(_lost_as, self.lost))

    def degraded(self) -> Counter[str]:
        """Returns how many answers have a degraded stage, by its reason."""
        return Counter(reason for sample in self.samples for reason in {stage.reason for stage in sample.degraded})

    def broken(self) -> Counter[str]:
        """Returns what no load explains, by kind and detail: what was lost, and what was degraded."""
        details = [f"{sample.error}: {sample.detail}" for sample in self.lost if _lost_as(sample) not in LATE]
        details += [
            f"degraded, {stage.reason}: {stage.detail}"
            for sample in self.samples
            for stage in sample.degraded
            if stage.reason not in BUSY
        ]
        return Counter(re.sub(r"[0-9.]*[0-9]", "#", detail) for detail in details)

    def row(self, pipeline: str, load: str, rate: float) -> tuple[str, ...]:
        answered = load_percentiles([sample.counted_ms for sample in self.samples if sample.error is None])
        refused = sum(sample.error == "overloaded" for sample in self.samples)
        times = ("-" if (ms := time.unchecked_ms) is None else f"{ms:.0f}" for time in (answered.p50, answered.p99))
        within = f"{self.refused_in_time:.1%}" if refused else "-"
        counted = (_counted(kinds) for kinds in (self.degraded(), self.counts.opened, self.errors()))
        ours = f"{self.generators:.2f}"
        return (pipeline, load, f"{rate:.0f}", f"{self.goodput:.1f}", *times, str(refused), within, *counted, ours)


def _lost_as(sample: LoadSample) -> str:
    """Returns what a sample that was not answered in time was lost to. `backend late`: a call had no answer in time."""
    if sample.late:
        return "late"
    detail = sample.detail or ""
    # A backend that is set aside is not asked; its detail may quote a call before that was late.
    return "backend late" if "no answer within" in detail and "not asked" not in detail else str(sample.error)


def _counted(kinds: Counter[str]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())) or "-"


async def run(seed: int, size: int = SECONDS, pipelines: Sequence[str] = PIPELINES, elasticsearch: str = "") -> Outcome:
    """Drives every load for `size` seconds.

    `elasticsearch`: the URL of one for the lexical service, in place of the embedded engine.
    """
    name, engines, lexical = "overload", "Embedded engines", None
    if elasticsearch:
        name, engines = "overload-elasticsearch", "BM25 in Elasticsearch, on the same machine; embedded vectors"
        lexical = {
            "LEXICAL_ENGINE": "elasticsearch",
            "ELASTICSEARCH_URL": elasticsearch,
            "LEXICAL_INDEX_PREFIX": f"overload-{seed}-",
        }
    says = SAYS.replace("{engines}", engines)
    rows: list[tuple[str, ...]] = []
    bars: list[Bar] = []
    broken: list[str] = []
    async with loaded_stack(seed, models=True, lexical=lexical) as stack:
        target = _target(stack, seed)
        for pipeline in pipelines:
            pipeline_rows, pipeline_bars, pipeline_broken = await _overloaded(stack, target, pipeline, seed, size)
            rows += pipeline_rows
            bars += pipeline_bars
            broken += pipeline_broken
        pipeline_rows, bar = await _beside_deep_ones(stack, target, seed, size)
        rows += pipeline_rows
        bars.append(bar)
    return Outcome(name, says, seed, COLUMNS, tuple(rows), tuple(bars), tuple(broken))


async def _overloaded(
    stack: LoadedStack, target: LoadTarget, pipeline: str, seed: int, seconds: int
) -> tuple[list[tuple[str, ...]], list[Bar], list[str]]:
    before = await _gateway_counts(stack)
    carried = await _carried(target, pipeline, seed, seconds)
    drives = {
        factor: await _driven(stack, target, pipeline, factor * carried, seed, seconds) for factor in (1, 2.0, 4.0)
    }
    after = await _driven(
        stack, target, pipeline, AFTER * carried, seed, seconds / 3 + RECOVERY_S, skipped_s=RECOVERY_S
    )
    peak = max(carried, *(drive.goodput for drive in drives.values()))
    rows = [drive.row(pipeline, f"{factor:g}x", factor * carried) for factor, drive in drives.items()]
    rows.append(after.row(pipeline, f"then {AFTER:g}x", AFTER * carried))
    bars = [
        Bar(
            f"{pipeline}: goodput at {factor:g}x is {least:.0%} of its peak",
            f"{drives[factor].goodput / peak:.1%} ({drives[factor].of_the_rest(peak):.1%} of the rest)",
            drives[factor].goodput >= least * peak,
            needs_cores=True,
        )
        for factor, least in LEAST_GOODPUT.items()
    ]
    refusals = min(drives[factor].refused_in_time for factor in LEAST_GOODPUT)
    bars.append(
        Bar(f"{pipeline}: 99 % are refused within 10 ms", f"{refusals:.1%}", refusals >= 0.99, needs_cores=True)
    )
    opened = (await _gateway_counts(stack)).since(before).opened
    bars.append(Bar(f"{pipeline}: no backend is set aside", _counted(opened), not opened))
    broken = sum((drive.broken() for drive in (*drives.values(), after)), Counter[str]())
    bars.append(
        Bar(
            f"{pipeline}: what is lost or degraded is so for load alone",
            f"{broken.total()} not",
            not broken,
            needs_cores=True,
        )
    )
    answered = after.goodput * after.seconds / max(1, len(after.samples))
    bars.append(
        Bar(
            f"{pipeline}: all are in time {RECOVERY_S:g} s after an overload",
            f"{answered:.1%}",
            answered >= 0.99,
            needs_cores=True,
        )
    )
    return rows, bars, [f"{pipeline}, {count} times: {detail}" for detail, count in broken.most_common()]


async def _beside_deep_ones(
    stack: LoadedStack, target: LoadTarget, seed: int, seconds: int
) -> tuple[list[tuple[str, ...]], Bar]:
    rate = AFTER * await _carried(target, "bm25", seed, seconds)
    alone = await _driven(stack, target, "bm25", rate, seed, seconds)
    flood = asyncio.create_task(
        run_closed(_target(stack, seed, DEEP_TOP), DEEP, DEEP_IN_FLIGHT, seconds + 4, PLAN, seed=seed, part="deep")
    )
    try:
        await asyncio.sleep(2)
        beside = await _driven(stack, target, "bm25", rate, seed, seconds)
    finally:
        await flood
    slower = beside.p95_ms / alone.p95_ms
    rows = [drive.row("bm25", load, rate) for load, drive in (("alone", alone), ("beside deep ones", beside))]
    measured = f"{slower:.2f}x ({alone.p95_ms:.0f} and {beside.p95_ms:.0f} ms)"
    return rows, Bar(
        f"deep searches of others lengthen the p95 by at most {MOST_SLOWER:g}x", measured, slower <= MOST_SLOWER, True
    )


async def _carried(target: LoadTarget, pipeline: str, seed: int, seconds: int) -> float:
    """Returns how many searches a second the stack answers in time, with as many in flight as that takes."""
    carried = 0.0
    for in_flight in IN_FLIGHT:
        point = await run_closed(
            target, pipeline, in_flight, seconds / 3, PLAN, seed=seed, part="carried", warmup_seconds=2
        )
        rate = sum(sample.in_goodput for sample in point.samples) / (seconds / 3)
        if rate < MORE * carried:
            return max(rate, carried)
        carried = rate
    return carried


async def _driven(
    stack: LoadedStack,
    target: LoadTarget,
    pipeline: str,
    rate: float,
    seed: int,
    seconds: float,
    *,
    skipped_s: float = 0.0,
) -> Drive:
    before = await _gateway_counts(stack)
    point = await run_point(
        target, pipeline, rate, seconds - skipped_s, PLAN, seed=seed, part=f"{rate}", warmup_seconds=skipped_s
    )
    samples = [sample for sample in point.samples if sample.phase == "measured"]
    generators = sum(generator.cpu_s / generator.seconds for generator in point.generators if generator.seconds)
    return Drive(samples, seconds - skipped_s, (await _gateway_counts(stack)).since(before), generators)


async def _gateway_counts(stack: LoadedStack) -> GatewayCounts:
    metrics = (await wire.ask(stack.port("gateway"), "GET", "/metrics")).text
    buckets = dict(re.findall(r'^http_refusal_seconds_bucket\{le="([^"]+)"\} (\S+)$', metrics, re.MULTILINE))
    opened = re.findall(r'^breakers_opened_total\{backend="([^"]+)"\} (\S+)$', metrics, re.MULTILINE)
    assert opened, "this gateway does not count its breakers"
    return GatewayCounts(
        float(buckets["+Inf"]),
        float(buckets[f"{REFUSED_WITHIN_S:g}"]),
        Counter({backend: int(float(count)) for backend, count in opened}),
    )


def _target(stack: LoadedStack, seed: int, top: int = 10) -> LoadTarget:
    rng = random.Random(seed)
    queries = [f"{text(rng, rng.randint(3, 9))} {number}" for number in range(QUERIES)]
    return LoadTarget(
        url=f"{stack.processes['gateway'].url}/v1/collections/{COLLECTION}/search",
        top=top,
        deadline_ms=DEADLINE_MS,
        queries=tuple(queries),
        bodies={
            (pipeline, query): SearchRequest(query=query, pipeline=pipeline, top=top).model_dump_json().encode()
            for pipeline in PIPELINES
            for query in queries
        },
        excluded=frozenset(),
        reranks={pipeline: {} for pipeline in PIPELINES},
        caches=False,
    )
