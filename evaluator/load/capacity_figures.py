"""Defines what load.json, report.json and capacity.json tell of a pipeline's capacity. capacity_report.py builds it."""

from pydantic import FiniteFloat

from evaluator.load.capacity import FoundCapacity
from services.contracts.base import Wire


class CapacityMultiple(Wire):
    """Figures at a multiple of the capacity; all others are in the point of this rate in `points` of load.json."""

    multiple: FiniteFloat
    rate: FiniteFloat
    goodput: FiniteFloat  # answers in time a second
    ndcg_a_second: FiniteFloat  # nDCG@10 summed over the requests of a second; late and lost ones add 0
    p95_ms: FiniteFloat | None
    p99_ms: FiniteFloat | None = None  # null below 662 requests, and where the times are not valid
    timing_valid: bool


class CapacityReport(Wire):
    """The capacity of a pipeline: the highest Poisson rate found whose p99 stays within the bound."""

    pipeline: str
    found: FoundCapacity
    multiples: tuple[CapacityMultiple, ...]  # none unless `found`
    knee: FiniteFloat | None  # a swept rate; null: times below the capacity are not valid
    sentence: str
