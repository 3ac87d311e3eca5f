"""Defines report.json, the outcome of all steps of a run. Within a version, fields are only added."""

from typing import Literal

from pydantic import FiniteFloat, model_validator

from evaluator.attribution.attribution_report import AttributionReport
from evaluator.comparison.examples import PairExamples
from evaluator.datasets.reader import DatasetCounts
from evaluator.experiments.gates import GateOutcome
from evaluator.load.load_report import LoadReport
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.metrics.metric_table import Conventions
from evaluator.metrics.verdict import PairedComparison
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.recommendation import Recommendation
from evaluator.runs.latency import MARKED, carry_validity
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import StepFile
from evaluator.steps.ingest import IngestReport
from evaluator.steps.quality_figures import JudgmentChange
from evaluator.steps.vector_recall import VectorRecall
from services.contracts.base import Count, Wire

MEND = "Remove the cause and measure again: these figures do not describe the pipelines."
MEASURE_AGAIN = "Other work on the machine lengthens times. Stop it and measure again, or compare CPU per query."


class KindFigures(Wire):
    """A metric on the queries whose metadata has a value; lost queries count as 0."""

    field: str  # of the metadata
    value: str
    metric: str  # with its depth: MAP@100
    queries: Count
    means: dict[str, FiniteFloat]  # by pipeline; one is missing where no query has a value
    # Of the recommended pipeline minus its runner-up. null: there are not both.
    difference: FiniteFloat | None
    interval: tuple[FiniteFloat, FiniteFloat] | None  # 95 %, BCa bootstrap, of this kind alone; null also of one query


class Report(StepFile):
    """Outcome of a run. `valid` only when no query was lost or degraded and nothing changed during the run.

    `warnings` also hold remarks that leave a run valid: a warm-up without answers, few judgments.
    """

    _carries_validity = model_validator(mode="wrap")(carry_validity)

    schema_version: Literal[1, 2] = 2  # 1: a pair had p of other tests too, and a recommendation had bounds
    experiment: str
    dataset: str
    split: str
    collection: str
    generation: str  # empty: imported
    engine: dict[str, str]  # by backend
    seed: Count
    depth: Count  # of the rankings
    timed_top: Count | None = None  # hits that a timed request asked for; null: `depth` of them, or nothing was timed
    sample: Count | None  # queries drawn with `seed`; null: all judged ones
    caches: bool = False  # services were allowed to answer from their caches
    valid: bool
    warnings: tuple[str, ...]
    # Whether the medians hold, and why not every time does. null: no times (imported), or an old release.
    timing_valid: bool | None = None
    timing_reasons: tuple[str, ...] = ()
    conditions: MachineConditions | None = None  # of the machine while the times were taken; null: not read
    pipelines: dict[str, PipelineReport]
    baseline: str | None = None  # the pipeline that the others are set against; null: of an old release, the first
    pairs: tuple[PairedComparison, ...] = ()  # all pairs of pipelines in the first metric: one family
    recommendation: Recommendation | None = None  # null: the run is not valid, or has one pipeline
    kinds: tuple[KindFigures, ...] = ()  # in the first metric, for fields with 2 to 12 values, as `compare` has slices
    # Where the recommended pipeline loses most against its runner-up, greatest loss first; null: there are not both.
    examples: PairExamples | None = None
    examples_reason: str | None = None  # why there are neither: the dataset is not there, or has changed
    conventions: Conventions | None = None  # null: of a release that did not state them
    gates: tuple[GateOutcome, ...] = ()  # of the queries one at a time; those of the load stand in `load`
    load: LoadReport | None = None  # null: no traffic was sent
    attribution: AttributionReport | None = None  # null: `attribute` was not called
    vector_recall: dict[str, VectorRecall]
    added_judgments: JudgmentChange | None = None  # null: measured by the dataset's judgments alone
    counts: DatasetCounts
    ingest: IngestReport | None  # null when the collection was there already
    manifest: Manifest

    @property
    def title(self) -> str:
        """The title of the report's pages."""
        return f"{self.experiment}: {self.dataset}, split {self.split}"

    @property
    def set_against(self) -> str:
        """The pipeline that the others are set against."""
        return self.baseline or next(iter(self.pipelines))

    @property
    def times_hold(self) -> bool:
        """Whether the times hold, but for single ones that other work left an interval."""
        return self.timing_valid is not False

    @property
    def remarks(self) -> tuple[str, ...]:
        """The warnings that leave the quality valid."""
        return self.warnings if self.valid else ()

    @property
    def status(self) -> str:
        """Whether quality and times hold, in a few words."""
        return f"Quality: {'valid' if self.valid else 'NOT VALID'}. Times: {self._times}."

    @property
    def status_line(self) -> str:
        """Whether quality and times hold, for which reasons not, and what to do."""
        quality = "valid." if self.valid else f"NOT VALID, because {'; '.join(self.warnings)}. {MEND}"
        doubts = "." if not self.timing_reasons else f", because {'; '.join(self.timing_reasons)}. {MEASURE_AGAIN}"
        return f"Quality: {quality} Times: {self._times}{doubts}"

    @property
    def _times(self) -> str:
        if not self.times_hold:
            return MARKED
        if self.timing_reasons:
            return f"some {MARKED}"
        if self.timing_valid:
            return "valid"
        return "not checked" if any(outcome.latency_ms.n for outcome in self.pipelines.values()) else "none"

    @property
    def every_gate(self) -> tuple[GateOutcome, ...]:
        """The gates of the run and of its load."""
        return (*self.gates, *(self.load.gates if self.load is not None else ()))
