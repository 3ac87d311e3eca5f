"""Breaks latency down: stages, their services' parts, the gap around them, slowest answers; lists failures. Pure.

The pieces of an answer's path add up to its latency. Of inputs that ran at once only the slowest delayed the answer, so
the others are left out.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from pydantic import ConfigDict, FiniteFloat

from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.latency import Timed, percentile
from services.contracts.base import Count, Wire
from services.contracts.pipelines import GATEWAY_WAIT, IdentifiedStage, IdentifiedStages, SourceStage

TOTAL = "total"
INCLUDE = "include"
OTHER = "other"  # the gateway's own work between the stages
GAP = "gap"  # between client and gateway: network, HTTP handling, event loops
SLOWEST_SHARE = 0.01
FAILED_OF_A_KIND = 5


class StageTime(Wire):
    """Milliseconds of a stage, or of a part of one, over the `n` answers that report it."""

    model_config = ConfigDict(revalidate_instances="always")

    p50: Timed
    p95: Timed
    n: Count
    share: FiniteFloat | None = None  # its sum over the sum of all latencies; stages that run at once overlap
    part_of: str | None = None  # the stage that a part belongs to


class SlowAnswer(Wire):
    """One of the slowest answers. The log of every service names its `request_id`."""

    model_config = ConfigDict(revalidate_instances="always")

    query: str
    latency_ms: Timed
    timings_ms: dict[str, Timed]
    request_id: str | None


class FailedRequest(Wire):
    """One request without a usable answer. The log of every service names its `request_id`."""

    query: str
    error: str  # the kind
    detail: str | None
    request_id: str | None  # null: it was not sent with one


def stage_times(answers: Sequence[AnswerOutcome], stage_ids: Collection[str]) -> dict[str, StageTime]:
    """Summarises the reported times by key. `stage_ids`: of the pipeline; they distinguish a part from a stage."""
    latency_ms = math.fsum(answer.latency_ms or 0.0 for answer in answers)
    ms_by_key: dict[str, list[float]] = {}
    for answer in answers:
        for key, ms in answer.timings_ms.items():
            ms_by_key.setdefault(key, []).append(ms)
    return {key: _summed_up(ms, latency_ms, _part_of(key, stage_ids, ms_by_key)) for key, ms in ms_by_key.items()}


def gap_time(answers: Sequence[AnswerOutcome]) -> StageTime | None:
    """Summarises what the client waited beyond the gateway's queue and `total`: network, HTTP handling, event loops.

    None where no answer reports a total.
    """
    timed = [(answer.latency_ms, answer.timings_ms) for answer in answers if answer.latency_ms is not None]
    gaps = [
        latency_ms - timings_ms[TOTAL] - timings_ms.get(GATEWAY_WAIT, 0.0)
        for latency_ms, timings_ms in timed
        if TOTAL in timings_ms
    ]
    return _summed_up(gaps, math.fsum(latency_ms for latency_ms, _ in timed), None) if gaps else None


def slowest_answers(answers: Sequence[AnswerOutcome]) -> tuple[SlowAnswer, ...]:
    """Returns the slowest 1 % of the answers (at least one), the slowest first."""
    ordered = sorted(answers, key=lambda answer: answer.latency_ms or 0.0, reverse=True)
    return tuple(
        SlowAnswer(
            query=answer.query, latency_ms=answer.latency_ms, timings_ms=answer.timings_ms, request_id=answer.request_id
        )
        for answer in ordered[: math.ceil(len(ordered) * SLOWEST_SHARE)]
        if answer.latency_ms is not None
    )


def failed_requests(requests: Sequence[AnswerOutcome]) -> tuple[FailedRequest, ...]:
    """Returns the first requests of each kind of error, in order; they have no latency, so no slowest answer is one."""
    listed: Counter[str] = Counter()
    listed_requests = []
    for request in requests:
        if request.error is not None and listed[request.error] < FAILED_OF_A_KIND:
            listed[request.error] += 1
            listed_requests.append(
                FailedRequest(
                    query=request.query, error=request.error, detail=request.detail, request_id=request.request_id
                )
            )
    return tuple(listed_requests)


def _summed_up(ms: Sequence[float], latency_ms: float, part_of: str | None) -> StageTime:
    ordered = sorted(ms)
    share = math.fsum(ms) / latency_ms if latency_ms else None
    return StageTime(
        p50=percentile(ordered, 0.5), p95=percentile(ordered, 0.95), n=len(ms), share=share, part_of=part_of
    )


def _part_of(key: str, stage_ids: Collection[str], reported: Mapping[str, object]) -> str | None:
    stage, dot, _ = key.rpartition(".")
    # Stage ids may have dots: `a.b` is a part only if no stage has this id.
    return stage if dot and key not in stage_ids and key != GATEWAY_WAIT and stage in reported else None


def mean_path(answers: Sequence[AnswerOutcome], stages: IdentifiedStages) -> dict[str, float]:
    """Returns the mean milliseconds by piece, in the order of a query, of the answers that report a total."""
    paths = [
        answer_path(answer.latency_ms, answer.timings_ms, stages)
        for answer in answers
        if answer.latency_ms is not None and TOTAL in answer.timings_ms
    ]
    keys = dict.fromkeys(key for key in _order(stages, [key for path in paths for key in path]))
    return {key: math.fsum(path.get(key, 0.0) for path in paths) / len(paths) for key in keys}


def answer_path(latency_ms: float, timings_ms: Mapping[str, float], stages: IdentifiedStages) -> dict[str, float]:
    """Returns the milliseconds of an answer by piece: `<stage>.<part>`, a stage's rest under its id, and so on."""
    path = _source_path(stages.source, timings_ms)
    for name in (*(stage.id for stage in stages.later), INCLUDE):
        path |= _stage_path(name, timings_ms)
    wait, total = timings_ms.get(GATEWAY_WAIT, 0.0), timings_ms[TOTAL]
    rest = {OTHER: max(0.0, total - math.fsum(path.values())), GAP: max(0.0, latency_ms - total - wait)}
    return {GATEWAY_WAIT: wait} | path | rest


def _source_path(source: IdentifiedStage[SourceStage], timings_ms: Mapping[str, float]) -> dict[str, float]:
    inputs = [_source_path(source_input, timings_ms) for source_input in source.inputs]
    slowest = max(inputs, key=lambda path: math.fsum(path.values()), default={})
    return slowest | _stage_path(source.id, timings_ms)


def _stage_path(stage: str, timings_ms: Mapping[str, float]) -> dict[str, float]:
    """Returns the parts of a stage and its rest. Parts of calls that ran at once are shrunk to the stage's time."""
    if stage not in timings_ms:
        return {}
    whole_ms = timings_ms[stage]
    parts = {key: ms for key, ms in timings_ms.items() if key.rpartition(".")[0] == stage and key != GATEWAY_WAIT}
    told_ms = math.fsum(parts.values())
    shrunk = {key: ms * min(1.0, whole_ms / told_ms) if told_ms else ms for key, ms in parts.items()}
    return shrunk | {stage: max(0.0, whole_ms - told_ms)}


def _order(stages: IdentifiedStages, keys: Sequence[str]) -> list[str]:
    """Sorts pieces in the order of a query: queue, each stage with its parts before its rest, other, gap."""
    names = [GATEWAY_WAIT, *(stage.id for stage in stages), INCLUDE, OTHER, GAP]

    def place(key: str) -> tuple[int, bool]:
        stage = key if key in names else key.rpartition(".")[0]
        return names.index(stage), key == stage

    return sorted(dict.fromkeys(keys), key=place)
