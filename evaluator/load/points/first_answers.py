"""Picks out the first requests of each repeat of a point, and reports what had been asked before them. Pure."""

from collections.abc import Sequence

from pydantic import ConfigDict

from evaluator.load.sending.time_slices import TimeSlice
from evaluator.runs.latency import Timed
from services.contracts.base import Count, Wire

FIRST = 5


class FirstAnswers(Wire):
    """Counted times of the first requests of a warm-up. They are in no figure."""

    model_config = ConfigDict(revalidate_instances="always")

    repeat: Count
    restarted: bool  # `between` was called before this repeat; before the first one each pipeline was asked a query
    drives_before: Count  # of this repeat; they warmed services that the pipelines share
    ms: tuple[Timed, ...]

    @property
    def state_in_words(self) -> str:
        """What the services had been asked before, in words."""
        if not self.restarted:
            return "asked before"
        return "partly warmed by those before" if self.drives_before else "cold"


def first_answers(slices: Sequence[TimeSlice], pipeline: str, *, between: bool) -> tuple[FirstAnswers, ...]:
    """Returns those of each repeat of a pipeline; none without a warm-up. `between`: called before each other repeat.

    `slices`: of one point.
    """
    found = []
    for part in slices:
        warmup = [one for one in part.loaded.samples if one.phase == "warmup" and one.pipeline == pipeline]
        if warmup:
            found.append(
                FirstAnswers(
                    repeat=part.repeat,
                    restarted=between and part.repeat > 0,
                    drives_before=part.place,
                    ms=tuple(Timed(one.counted_ms, None) for one in warmup[:FIRST]),
                )
            )
    return tuple(found)
