"""Computes what a request of a point cost each process. Pure; sending/process_watch.py reads the processes."""

from collections.abc import Sequence

from evaluator.load.sending.drives import LoadedPoint
from evaluator.load.sending.samples import DROPPED
from evaluator.machine.process_costs import PipelineCost, mean_cost, summed_costs

LOADING = "the corpus was loaded meanwhile, and its CPU time cannot be told from that of the requests"


def point_cost(slices: Sequence[LoadedPoint]) -> tuple[PipelineCost | None, str | None]:
    """Returns the mean cost of a request over all slices, or why there is none; neither where no process was named.

    Every request that was sent counts, those of the warm-up too: the readings stand around whole slices. So do the
    start of the generators (the processes are idle meanwhile) and the answer to a reading, once a slice.
    """
    if not all(one.costs for one in slices):
        return None, None
    if any(one.loading is not None for one in slices):
        return None, LOADING
    samples = [sample for one in slices for sample in one.samples]
    sent = [sample for sample in samples if sample.error != DROPPED]
    lost = sum(sample.error is not None for sample in sent)
    seconds = sum(one.seconds for one in slices)
    return mean_cost(summed_costs([one.costs for one in slices]), len(sent), lost, seconds), None


def missing_cpu(cost: PipelineCost) -> str:
    """Returns which processes have no CPU time, and why."""
    return "; ".join(f"{name}: {one.reason}" for name, one in cost.processes.items() if one.cpu_ms is None)
