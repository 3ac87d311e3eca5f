"""Chooses the uninterrupted segment of a run that latency is taken from, and reports it. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.manifest import Manifest
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
