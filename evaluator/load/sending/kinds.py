"""Defines the kinds of traffic of a plan, and which of them take turns, slice by slice. Sends nothing."""

from dataclasses import dataclass

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.sending.load_loop import LoopKind


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of traffic, through each pipeline in turn."""

    name: str  # `20`, `1.5x`, `inflight8`; idle and loading have one, and the same requests
    rate: float | None = None
    in_flight: int | None = None
    while_loading: bool = False  # the corpus is loaded meanwhile, as another collection

    @property
    def label(self) -> str:
        """The name as in the names of the files: `20`, `20-loading`."""
        return f"{self.name}-loading" if self.while_loading else self.name

    def asked_through(self, pipeline: str) -> str:
        """What an open loop sends to a pipeline, in words: `bm25 at 20/s while loading`."""
        words = f"{pipeline} at {self.rate:g}/s"
        return f"{words} while loading" if self.while_loading else words

    @property
    def loop(self) -> LoopKind:
        """Whether requests are sent at planned times or after answers."""
        return "open" if self.in_flight is None else "closed"


def planned_traffic(plan: LoadPlan) -> list[list[Traffic]]:
    """Returns the kinds of traffic of a plan in their order; those together that take turns: idle and loading."""
    loading = (False, True) if plan.while_loading else (False,)
    groups = [[Traffic(f"{rate:g}", rate=rate, while_loading=one) for one in loading] for rate in plan.rates]
    return groups + [[Traffic(f"inflight{number}", in_flight=number)] for number in plan.in_flight]


def slice_count(plan: LoadPlan, arms: int) -> int:
    """Returns into how many slices a point is cut. What takes no turns is not cut."""
    if arms == 1 and not plan.while_loading:
        return 1
    return max(2 if plan.while_loading else 1, round(plan.seconds / plan.slice_seconds))
