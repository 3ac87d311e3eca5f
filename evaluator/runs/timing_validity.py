"""Owns `conditions.jsonl`, what the machine did while a run's queries were timed, and decides whether the times hold.

Whether the run itself is valid (lost queries, degraded answers) is left to the report.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from evaluator.client.cached_results import cache_faults, sum_cached_results
from evaluator.machine.machine_conditions import ConditionsMeter, MachineConditions, MachineCounters, window_faults
from evaluator.runs.answers import AnswerOutcome, drop_torn_line
from evaluator.runs.interruptions import LatencySource, warmup_remarks
from evaluator.runs.latency import DRIFT_LIMIT, drift_in_words, summarise
from evaluator.runs.run_folder import CONDITIONS
from services.contracts.base import Count, Wire
from services.files.disk_writes import naming
from services.files.regular_file import read_regular

# The probability of an alarm of any pipeline while nothing drifts. In few queries one half often holds more slow ones
# than the other.
CHANCE = 0.01


class SegmentConditions(Wire):
    """A line of `conditions.jsonl`: the machine since the first timed query of a segment. The last line counts."""

    segment: Count
    conditions: MachineConditions


class ConditionsLog:
    """Reads the machine's counters between timed queries, and writes them to a run's folder."""

    def __init__(
        self,
        folder: Path,
        segment: int,
        measured: Collection[int] | None,
        counters: MachineCounters | None = None,
    ) -> None:
        """`measured`: as in `read_conditions`. `counters`: of tests."""
        self._file = folder / CONDITIONS
        self._segment = segment
        self._meter = ConditionsMeter(measured, counters)

    def note(self) -> None:
        """Reads and writes if a window is over; a killed run loses what happened after that."""
        if self._meter.due:
            self.write()

    def write(self) -> None:
        """Reads and appends a line."""
        line = SegmentConditions(segment=self._segment, conditions=self._meter.read())
        if self._file.exists():
            drop_torn_line(self._file)
        with naming(self._file), self._file.open("a", encoding="utf-8") as file:
            file.write(line.model_dump_json() + "\n")


def conditions_of(folder: Path, segment: int) -> MachineConditions | None:
    """Returns what the machine did in a segment of a run; None: no reading was taken."""
    file, found = folder / CONDITIONS, None
    if file.exists():
        for line in read_regular(file).decode().splitlines():
            one = SegmentConditions.from_record(line)
            found = one.conditions if one.segment == segment else found
    return found


def is_timed(record: AnswerOutcome, segment: int | None) -> bool:
    """Returns whether an answer's time counts: of one segment if given."""
    return record.phase == "measured" and record.error is None and segment in (None, record.segment)


def samples_ms(records: Sequence[AnswerOutcome], segment: int | None) -> list[float]:
    """Returns the times of the timed answers, of one segment if given."""
    return [one.latency_ms for one in records if is_timed(one, segment) and one.latency_ms is not None]


def timing_doubts(
    records: Mapping[str, Sequence[AnswerOutcome]],
    imported: Collection[str],
    source: LatencySource | None,
    conditions: MachineConditions | None,
    *,
    caches: bool,
) -> tuple[str, ...]:
    """Returns why the times of a run do not hold, a sentence each. `records`: by arm; `imported`: those without times.

    `caches`: whether services were allowed to answer from theirs.
    """
    segment = None if source is None else source.segment
    samples = {arm: samples_ms(of_arm, segment) for arm, of_arm in records.items() if arm not in imported}
    cached = {
        arm: sum_cached_results(one.cached for one in of_arm if is_timed(one, segment))
        for arm, of_arm in records.items()
    }
    return (*timing_faults(samples, records, source, conditions), *cache_faults(caches, cached))


def timing_faults(
    samples_ms: Mapping[str, Sequence[float]],
    records: Mapping[str, Sequence[AnswerOutcome]],
    source: LatencySource | None,
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
    yield from warmup_remarks(records, source)


def _halves_differ(samples: Sequence[float], chance: float) -> bool:
    """Compares the halves by ranks (Mann and Whitney 1947): times have long tails.

    One query is out at a time, so that none waits for another, as those of a load do.
    """
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # inside: takes a second to import

    half = len(samples) // 2
    return bool(mannwhitneyu(samples[:half], samples[half:]).pvalue < chance)
