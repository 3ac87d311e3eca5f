"""Slices the requests of a point by the length of their queries. Pure."""

from collections.abc import Mapping, Sequence

from pydantic import FiniteFloat

from evaluator.load.figures import load_percentiles
from evaluator.load.quality import mean_ndcg
from evaluator.load.samples import LoadSample
from evaluator.metrics.quality import Grades
from services.contracts.base import Count, Wire

# The least number of words of each slice.
STEPS = (1, 4, 8, 16)


class LengthSlice(Wire):
    """Figures of the requests whose queries have so many words (separated by white space)."""

    words: str  # `4 to 7`
    queries: Count
    requests: Count
    p50_ms: FiniteFloat | None
    p95_ms: FiniteFloat | None
    ndcg_at_10: FiniteFloat | None


def length_slices(
    samples: Sequence[LoadSample], words: Mapping[str, int], judgments: Grades
) -> tuple[LengthSlice, ...]:
    """Returns the slices that have requests, the shortest queries first. `words`: by query."""
    found = []
    for least, next_least in zip(STEPS, (*STEPS[1:], None), strict=True):
        members = [
            one
            for one in samples
            if words[one.query] >= least and (next_least is None or words[one.query] < next_least)
        ]
        if members:
            times = load_percentiles([one.counted_ms for one in members])
            found.append(
                LengthSlice(
                    words=f"{least} or more" if next_least is None else f"{least} to {next_least - 1}",
                    queries=len({one.query for one in members}),
                    requests=len(members),
                    p50_ms=times.p50,
                    p95_ms=times.p95,
                    ndcg_at_10=mean_ndcg(judgments, members),
                )
            )
    return tuple(found)
