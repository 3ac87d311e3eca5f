"""Splits the latency of an answer into pieces that add up to it: queue, stages and their parts, gap. Pure.

Of inputs that ran at once only the slowest delayed the answer, so the others are left out.
"""

import math
from collections.abc import Mapping, Sequence

from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.breakdown import TOTAL
from services.contracts.pipelines import GATEWAY_WAIT, IdentifiedStage, IdentifiedStages, SourceStage

INCLUDE = "include"
OTHER = "other"  # the gateway's own work between the stages
GAP = "gap"  # between client and gateway: network, HTTP handling, event loops


def mean_path(answers: Sequence[AnswerOutcome], stages: IdentifiedStages) -> dict[str, float]:
    """Returns the mean milliseconds by piece, in the order of a query, of the answers that report a total."""
    paths = [
        answer_path(one.latency_ms, one.timings_ms, stages)
        for one in answers
        if one.latency_ms is not None and TOTAL in one.timings_ms
    ]
    keys = dict.fromkeys(key for key in _order(stages, [key for path in paths for key in path]))
    return {key: math.fsum(path.get(key, 0.0) for path in paths) / len(paths) for key in keys}


def answer_path(latency_ms: float, timings_ms: Mapping[str, float], stages: IdentifiedStages) -> dict[str, float]:
    """Returns the milliseconds of an answer by piece: `<stage>.<part>`, a stage's rest under its id, and so on."""
    path = _source_path(stages.source, timings_ms)
    for name in (*(one.id for one in stages.later), INCLUDE):
        path |= _stage_path(name, timings_ms)
    wait, total = timings_ms.get(GATEWAY_WAIT, 0.0), timings_ms[TOTAL]
    rest = {OTHER: max(0.0, total - math.fsum(path.values())), GAP: max(0.0, latency_ms - total - wait)}
    return {GATEWAY_WAIT: wait} | path | rest


def _source_path(source: IdentifiedStage[SourceStage], timings_ms: Mapping[str, float]) -> dict[str, float]:
    inputs = [_source_path(one, timings_ms) for one in source.inputs]
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
    names = [GATEWAY_WAIT, *(one.id for one in stages), INCLUDE, OTHER, GAP]

    def place(key: str) -> tuple[int, bool]:
        stage = key if key in names else key.rpartition(".")[0]
        return names.index(stage), key == stage

    return sorted(dict.fromkeys(keys), key=place)
