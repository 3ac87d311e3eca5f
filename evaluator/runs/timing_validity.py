"""Owns `conditions.jsonl`, what the machine did while a run's queries were timed, and decides whether the times hold.

Whether the run itself is valid (lost queries, degraded answers) is left to the report.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from evaluator.client.cached_results import cache_faults, sum_cached_results
from evaluator.machine.machine_conditions import MachineConditions, window_faults
from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.latency import DRIFT_LIMIT, drift_in_words, summarise
from evaluator.runs.run_folder import CONDITIONS
from services.contracts.base import Wire
from services.files.disk_writes import write_whole
from services.files.regular_file import read_regular

# The probability of an alarm of any pipeline while nothing drifts. In few queries one half often holds more slow ones
# than the other.
CHANCE = 0.01


class TimedConditions(Wire):
    """A line of `conditions.jsonl`: the machine from the first timed query to the last. The last line counts."""

    conditions: MachineConditions


def write_conditions(folder: Path, conditions: MachineConditions) -> None:
    """Writes what the machine did while the queries of a run were timed."""
    write_whole(folder / CONDITIONS, TimedConditions(conditions=conditions).model_dump_json() + "\n")


def conditions_of(folder: Path) -> MachineConditions | None:
    """Returns what the machine did while the queries of a run were timed; None: no reading was taken."""
    file = folder / CONDITIONS
    lines = read_regular(file).decode().splitlines() if file.exists() else []
    return TimedConditions.from_record(lines[-1]).conditions if lines else None


def is_timed(record: AnswerOutcome) -> bool:
    """Returns whether an answer's time counts."""
    return record.phase == "measured" and record.error is None


def samples_ms(records: Sequence[AnswerOutcome]) -> list[float]:
    """Returns the times of the timed answers."""
    return [record.latency_ms for record in records if is_timed(record) and record.latency_ms is not None]


def timing_doubts(
    records: Mapping[str, Sequence[AnswerOutcome]],
    imported: Collection[str],
    conditions: MachineConditions | None,
    *,
    caches: bool,
) -> tuple[str, ...]:
    """Returns a sentence for each reason why times do not hold. `records`: by arm; `imported`: those without times.

    `caches`: whether services were allowed to answer from theirs.
    """
    samples = {arm: samples_ms(of_arm) for arm, of_arm in records.items() if arm not in imported}
    cached = {
        arm: sum_cached_results(record.cached for record in of_arm if is_timed(record))
        for arm, of_arm in records.items()
    }
    return (*timing_faults(samples, records, conditions), *cache_faults(caches, cached))


def timing_faults(
    samples_ms: Mapping[str, Sequence[float]],
    records: Mapping[str, Sequence[AnswerOutcome]],
    conditions: MachineConditions | None,
) -> Iterator[str]:
    """Yields a sentence for each reason why the times of a run do not hold.

    `samples_ms`: of the timed answers in the order of measurement, by arm. `records`: all outcomes, by arm.
    """
    for arm, samples in samples_ms.items():
        drift = summarise(samples).drift
        if drift is not None and abs(drift - 1) > DRIFT_LIMIT and _halves_differ(samples, CHANCE / len(samples_ms)):
            yield f"{arm}: the later half {drift_in_words(drift)} the earlier one (drift, limit {DRIFT_LIMIT:.0%})"
    if conditions is not None:
        yield from window_faults(conditions)
    if any(record.segment for of_arm in records.values() for record in of_arm):
        yield "an earlier release went on with this ranking after an interruption; `rank` measures its times anew"
    yield from warmup_remarks(records)


def warmup_remarks(records: Mapping[str, Sequence[AnswerOutcome]]) -> Iterator[str]:
    """Yields a sentence for each arm of which no warm-up query was answered before its latency was taken."""
    for arm, of_arm in records.items():
        warmup = [record for record in of_arm if record.phase == "warmup"]
        if warmup and all(record.error is not None for record in warmup):
            errors = Counter(str(record.error) for record in warmup)
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()))
            yield f"{arm}: none of {len(warmup)} warm-up queries was answered ({kinds}): its latency is of a cold start"


def _halves_differ(samples: Sequence[float], chance: float) -> bool:
    """Compares the halves by ranks (Mann and Whitney 1947): times have long tails.

    One query is out at a time, so that none waits for another, as those of a load do.
    """
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # inside: takes a second to import

    half = len(samples) // 2
    return bool(mannwhitneyu(samples[:half], samples[half:]).pvalue < chance)
