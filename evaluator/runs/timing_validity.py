"""Owns `conditions.json`, what the machine did while a run's queries were timed, and decides whether the times hold.

A disturbed query is asked again; what stays disturbed leaves each figure an interval (runs/latency.py). Whether the run
itself is valid (lost queries, degraded answers) is left to the report.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evaluator.client.cached_results import cache_faults, sum_cached_results
from evaluator.machine.machine_conditions import MachineConditions, condition_words
from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.latency import Latency, summarise
from evaluator.runs.run_folder import CONDITIONS
from services.files.disk_writes import write_whole
from services.files.regular_file import read_regular


def write_conditions(folder: Path, conditions: MachineConditions) -> None:
    """Writes what the machine did while the queries of a run were timed."""
    write_whole(folder / CONDITIONS, conditions.model_dump_json() + "\n")


def conditions_of(folder: Path) -> MachineConditions | None:
    """Returns what the machine did while the queries of a run were timed; None: no reading was taken."""
    file = folder / CONDITIONS
    return MachineConditions.from_record(read_regular(file)) if file.exists() else None


def timed_answers(records: Sequence[AnswerOutcome]) -> list[AnswerOutcome]:
    """Returns the answers whose times count, one per query: the last one, where it was asked again for its time."""
    answered = [record for record in records if record.error is None]
    timed = {record.query: record for record in answered if record.phase == "measured"}
    timed |= {record.query: record for record in answered if record.phase == "again" and record.query in timed}
    return list(timed.values())


def latency_of(records: Sequence[AnswerOutcome]) -> Latency:
    """Returns the figures of the times that count."""
    timed = [record for record in timed_answers(records) if record.latency_ms is not None]
    disturbed = sum(record.disturbed for record in timed) / len(timed) if timed else 0.0
    return summarise([record.latency_ms for record in timed if record.latency_ms is not None], disturbed)


def timing_faults(records: Mapping[str, Sequence[AnswerOutcome]], *, caches: bool) -> tuple[str, ...]:
    """Returns a sentence for each reason why no time of a run holds. `records`: all outcomes, by arm.

    `caches`: whether services were allowed to answer from theirs.
    """
    timed = {arm: timed_answers(of_arm) for arm, of_arm in records.items()}
    cached = {arm: sum_cached_results(record.cached for record in of_arm) for arm, of_arm in timed.items()}
    return (*warmup_remarks(records), *cache_faults(caches, cached))


def disturbance(latencies: Mapping[str, Latency], conditions: MachineConditions | None) -> Iterator[str]:
    """Yields a sentence where disturbed answers leave a percentile an interval wider than a tenth of it, by arm."""
    every = (time for of in latencies.values() for time in (of.p50, of.p95, of.p99))
    times = [time for time in every if time.unchecked_ms is not None]
    if wide := sum(not time.holds for time in times):
        most = max(of.disturbed for of in latencies.values())
        words = f" ({condition_words(conditions)})" if conditions is not None else ""
        yield (
            f"{wide} of {len(times)} percentiles are known only within an interval wider than 10 %: other work "
            f"disturbed up to {most:.0%} of the answers, each time that they were sent{words}"
        )


def warmup_remarks(records: Mapping[str, Sequence[AnswerOutcome]]) -> Iterator[str]:
    """Yields a sentence for each arm of which no warm-up query was answered before its latency was taken."""
    for arm, of_arm in records.items():
        warmup = [record for record in of_arm if record.phase == "warmup"]
        if warmup and all(record.error is not None for record in warmup):
            errors = Counter(str(record.error) for record in warmup)
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(errors.items()))
            yield f"{arm}: none of {len(warmup)} warm-up queries was answered ({kinds}): latency includes a cold start"
