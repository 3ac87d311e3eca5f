"""Defines the kinds of traffic of a plan, and which of them take turns, slice by slice. Sends nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.experiments.load_plan import LoadPlan, TrafficStep
from evaluator.load.sending.load_loop import LoopKind
from evaluator.load.sending.trace import read_trace
from evaluator.load.sending.traffic import LoadTarget, PlannedRequest


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of traffic, through each pipeline in turn or, as a trace, through several at once."""

    name: str  # `20`, `1.5x`, `inflight8`, `steps`, `trace`; idle and loading have one, and the same requests
    rate: float | None = None
    in_flight: int | None = None
    steps: tuple[TrafficStep, ...] = ()
    trace: tuple[PlannedRequest, ...] = ()
    while_loading: bool = False  # the corpus is loaded meanwhile, as another collection

    @property
    def label(self) -> str:
        """The name as in the names of the files: `20`, `20-loading`."""
        return f"{self.name}-loading" if self.while_loading else self.name

    def asked_through(self, pipelines: Sequence[str]) -> str:
        """What an open loop sends to these pipelines, in words: `bm25 at 20/s while loading`, `bm25, steps`."""
        names = ", ".join(pipelines)
        words = f"{names}, {self.name}" if self.rate is None else f"{names} at {self.rate:g}/s"
        return f"{words} while loading" if self.while_loading else words

    @property
    def highest_rate(self) -> float:
        """Requests a second, at most, of planned times; a trace has its own."""
        return self.rate or max(max(step.rate, step.to or 0.0) for step in self.steps)

    def planned_seconds(self, plan: LoadPlan) -> float:
        """How long one repeat sends, without its warm-up."""
        if self.trace:
            return self.trace[-1].at_s or 1.0
        return sum(step.seconds for step in self.steps) or plan.seconds

    @property
    def loop(self) -> LoopKind:
        """Whether requests are sent at planned times or after answers."""
        return "open" if self.in_flight is None else "closed"


def planned_traffic(plan: LoadPlan, target: LoadTarget, pipelines: Sequence[str]) -> list[list[Traffic]]:
    """Returns the kinds of traffic of a plan in their order; those together that take turns: idle and loading."""
    loading = (False, True) if plan.while_loading else (False,)
    groups = [[Traffic(f"{rate:g}", rate=rate, while_loading=one) for one in loading] for rate in plan.rates]
    if plan.steps:
        groups.append([Traffic("steps", steps=plan.steps)])
    if plan.trace is not None:
        groups.append([Traffic("trace", trace=tuple(read_trace(Path(plan.trace), target.queries, pipelines)))])
    groups += [[Traffic(f"inflight{number}", in_flight=number)] for number in plan.in_flight]
    return groups


def slice_count(traffic: Traffic, plan: LoadPlan, arms: int) -> int:
    """Returns into how many slices a point is cut. What takes no turns is not cut; nor are steps."""
    if traffic.steps or (arms == 1 and not plan.while_loading):
        return 1
    return max(2 if plan.while_loading else 1, round(plan.seconds / plan.slice_seconds))
