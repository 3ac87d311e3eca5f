"""Defines compared.json and judges each point of a load against the same point of an earlier run. Pure."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.load.calibration import Calibration
from evaluator.load.compared import (
    CalibratedRatio,
    ComparedOutcome,
    binomial_ratios,
    calibration_faults,
    compared_sentence,
    joint_outcome,
    judge_ratio,
    machine_ratio,
    sampled_ratios,
)
from evaluator.load.figures import LoadPercentiles
from evaluator.load.report import LoadPointReport
from evaluator.load.samples import LoadSample
from evaluator.pages.junit import GateCase
from evaluator.runs.run_folder import StepFile
from services.contracts.base import Wire

COMPARED = "compared.json"
# Where intervals of measured ratios come from: blocks of the same requests in both runs, or each run's own intervals.
IntervalSource = Literal["samples", "binomial"]
Samples = Sequence[LoadSample]


class RunFigures(Wire):
    """Figures of a point in one of the two runs."""

    latency_ms: LoadPercentiles
    goodput: FiniteFloat
    ndcg_at_10: FiniteFloat | None
    timing_valid: bool

    @classmethod
    def of(cls, point: LoadPointReport) -> "RunFigures":
        """Takes them from a point of load.json."""
        return cls(
            latency_ms=point.latency_ms,
            goodput=point.goodput,
            ndcg_at_10=point.quality.ndcg_at_10,
            timing_valid=point.timing_valid,
        )


class ComparedPoint(Wire):
    """One pipeline in one kind of traffic, in both runs."""

    pipeline: str
    traffic: str  # in words: `20/s`, `8 in flight (capacity)`, …
    old: RunFigures
    new: RunFigures
    intervals_from: IntervalSource
    ratios: tuple[CalibratedRatio, ...]  # empty: not judged
    outcome: ComparedOutcome
    faults: tuple[str, ...]  # why it was not judged

    @property
    def name(self) -> str:
        """Pipeline and traffic in words."""
        return f"{self.pipeline} at {self.traffic}"


class ComparedReport(StepFile):
    """compared.json, the last file of `load --compare`."""

    old: str  # the run or file compared with
    old_sha256: str  # of its load.json or report.json
    margin: FiniteFloat
    old_calibration: Calibration
    new_calibration: Calibration
    points: tuple[ComparedPoint, ...]
    remarks: tuple[str, ...]  # what differs beside the load: commit, versions, engines, pipelines

    @property
    def slower(self) -> bool:
        """Whether a pipeline is slower beyond the margin."""
        return any(point.outcome == "slower" for point in self.points)

    @property
    def told(self) -> bool:
        """Whether every point was found slower or not slower."""
        return all(point.outcome != "cannot tell" for point in self.points)

    @property
    def cases(self) -> list[GateCase]:
        """A gate for each point; it holds where it is shown that the point is not slower."""
        return [
            GateCase(
                f"{point.name}: not slower by more than {self.margin:g}",
                point.outcome == "not slower",
                self.sentence(point),
            )
            for point in self.points
        ]

    def sentence(self, point: ComparedPoint) -> str:
        """Returns the verdict of a point, or why there is none."""
        if point.faults:
            return f"cannot tell: {'; '.join(point.faults)}"
        return compared_sentence(point.outcome, point.ratios, self.margin)


def compared_point(
    old: LoadPointReport,
    new: LoadPointReport,
    samples: tuple[Samples, Samples] | None,
    calibrations: tuple[Calibration, Calibration],
    margin: float,
    seed: int,
) -> ComparedPoint:
    """Judges one point. `samples`: the measured requests of the old and the new run, where both are there.

    A closed loop plans no requests, so its intervals are those of each run.
    """
    paired = samples if new.loop == "open" else None
    faults = [*_faults(old, new, calibrations)]
    if _planned_differs(old, new, paired):
        faults.append("the requests are not those of the old run")
    ratios: tuple[CalibratedRatio, ...] = ()
    if not faults:
        measured = binomial_ratios(old.latency_ms, new.latency_ms) if paired is None else sampled_ratios(*paired, seed)
        machine = machine_ratio(*calibrations)
        assert machine is not None  # calibration_faults has said so
        ratios = tuple(judge_ratio(name, one, machine, margin) for name, one in measured.items())
        if not ratios:
            faults.append("there were too few requests")
    return ComparedPoint(
        pipeline=new.pipeline,
        traffic=new.traffic_in_words,
        old=RunFigures.of(old),
        new=RunFigures.of(new),
        intervals_from="binomial" if paired is None else "samples",
        ratios=ratios,
        outcome=joint_outcome(ratios),
        faults=tuple(faults),
    )


def _faults(old: LoadPointReport, new: LoadPointReport, calibrations: tuple[Calibration, Calibration]) -> Iterator[str]:
    for which, point, calibration in (("old", old, calibrations[0]), ("new", new, calibrations[1])):
        yield from (f"the {which} run: {fault}" for fault in point.timing_faults)
        yield from (f"the {which} run: {fault}" for fault in calibration_faults(calibration))


def _planned_differs(old: LoadPointReport, new: LoadPointReport, paired: tuple[Samples, Samples] | None) -> bool:
    """Returns whether an open loop had other requests. Without samples, only their number is known."""
    if paired is not None:
        first, second = ([(one.repeat, one.slice, one.query, one.planned_s) for one in side] for side in paired)
        return first != second
    return new.loop == "open" and old.counts.requests != new.counts.requests
