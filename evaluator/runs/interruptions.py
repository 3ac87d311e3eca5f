"""Continues an interrupted `rank`, and chooses the uninterrupted segment that latency is taken from. Sends nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from evaluator.errors import EvaluationError
from evaluator.progress import say
from evaluator.runs.answers import AnswerOutcome, drop_torn_line, read_outcomes
from evaluator.runs.manifest import Manifest, MeasuringEnvironment
from evaluator.runs.run_folder import BESIDE_RANKING, LOAD_PAGE, RunFolder
from services.contracts.base import Count, Wire


class LatencySource(Wire):
    """The segment of an interrupted run with the most answers, over all pipelines: latency is of it alone."""

    segment: Count  # 0: before the first interruption
    interruptions: Count
    started_utc: str
    answers: Count
    of: Count


def latency_source(manifest: Manifest, records: Mapping[str, Sequence[AnswerOutcome]]) -> LatencySource | None:
    """Returns the segment that latency is taken from; None for a run without interruption."""
    if not manifest.continued:
        return None
    answers = Counter(
        record.segment
        for of_arm in records.values()
        for record in of_arm
        if record.phase == "measured" and record.error is None
    )
    longest = max(sorted(answers), key=lambda segment: answers[segment], default=0)
    return LatencySource(
        segment=longest,
        interruptions=len(manifest.continued),
        started_utc=(manifest, *manifest.continued)[longest].started_utc,
        answers=answers[longest],
        of=answers.total(),
    )


def interruption_remarks(source: LatencySource | None) -> Iterator[str]:
    """Yields what the report states of interruptions."""
    if source is not None:
        times = "once" if source.interruptions == 1 else f"{source.interruptions} times"
        yield (
            f"rank was interrupted {times} and went on; latency is of the {source.answers} of {source.of} answers that "
            f"came without an interruption from {source.started_utc} on"
        )


def warmup_remarks(records: Mapping[str, Sequence[AnswerOutcome]], source: LatencySource | None) -> Iterator[str]:
    """Yields a sentence for each arm of which no warm-up query was answered before its latency was taken."""
    segment = 0 if source is None else source.segment
    for arm, of_arm in records.items():
        warmup = [record for record in of_arm if record.phase == "warmup" and record.segment == segment]
        if warmup and all(record.error is not None for record in warmup):
            kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(Counter(str(one.error) for one in warmup).items()))
            yield f"{arm}: none of {len(warmup)} warm-up queries was answered ({kinds}): its latency is of a cold start"


@dataclass(frozen=True, slots=True)
class ArmProgress:
    """The queries of an arm's answers, and how many of the last ones of each phase timed out in a row."""

    measured: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()  # of them, with an answer
    deep: frozenset[str] = frozenset()
    timeouts: int = 0
    deep_timeouts: int = 0


def arm_progress(path: Path) -> ArmProgress:
    """Reads the answers of an arm, without a last line of which only a part was written."""
    if not path.exists():
        return ArmProgress()
    if drop_torn_line(path):
        say(f"{path}: the last line was written in part; its query is sent again")
    records = list(read_outcomes(path))
    measured = [record for record in records if record.phase == "measured"]
    deep = [record for record in records if record.phase == "deep"]
    return ArmProgress(
        measured=frozenset(record.query for record in measured),
        answered=frozenset(record.query for record in measured if record.error is None),
        deep=frozenset(record.query for record in deep),
        timeouts=reduce(timeouts_in_a_row, measured, 0),
        deep_timeouts=reduce(timeouts_in_a_row, deep, 0),
    )


def timeouts_in_a_row(before: int, record: AnswerOutcome) -> int:
    """Returns the number of queries in a row, up to this one, that timed out; abandoned ones do not count."""
    return before if record.error == "abandoned" else before + 1 if record.error == "timeout" else 0


def continue_or_begin(folder: RunFolder, fresh: Manifest) -> Manifest:
    """Writes manifest.json: the interrupted run's, with the present environment added, or `fresh`.

    `rank.json` is the last file of the step: where it stands, the step ended and begins anew. So it does where no
    query was answered, and where dataset, collection or pipelines are no longer those of the answers. What was
    measured beside the earlier ranking then no longer fits (its `made_from` names the manifest).
    """
    interrupted = _interrupted(folder)
    changed = [] if interrupted is None else _changes(interrupted, fresh)
    if interrupted is not None and not changed:
        fields = MeasuringEnvironment.model_fields
        present = MeasuringEnvironment(**{name: value for name, value in fresh if name in fields})
        manifest = interrupted.model_copy(update={"continued": (*interrupted.continued, present)})
        say(f"{folder.path}: rank was interrupted; it goes on where it stood")
    else:
        if changed:
            say(f"{folder.path}: rank was interrupted, and begins anew because of another {' and '.join(changed)}")
        manifest = fresh
        folder.forget_answers()
        _invalidate_earlier_measurements(folder)
    folder.write("manifest.json", manifest)
    return manifest


def _invalidate_earlier_measurements(folder: RunFolder) -> None:
    """Removes the page that links the manifest of before, and names the files whose reading is refused from now on.

    The files stay: an hour of load is not to be had again for nothing.
    """
    (folder.path / LOAD_PAGE).unlink(missing_ok=True)
    if found := [name for name in BESIDE_RANKING if folder.has(name)]:
        say(f"{folder.path}: measured beside an earlier ranking, and not read any more: {', '.join(found)}")


def _interrupted(folder: RunFolder) -> Manifest | None:
    if folder.has("rank.json") or not folder.has("manifest.json"):
        return None
    try:
        manifest = folder.read("manifest.json", Manifest)
    except EvaluationError as error:
        say(f"{error}; it begins anew")
        return None
    return manifest if any(arm_progress(folder.answers(arm)).measured for arm in manifest.pipelines) else None


def _changes(before: Manifest, now: Manifest) -> list[str]:
    return [what for what, value in before.answer_identity.items() if value != now.answer_identity[what]]
