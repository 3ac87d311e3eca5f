"""Renders the pages of the evaluator's service. Knows no HTTP: routes decide what is asked and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment

from evaluator.comparison.comparing import ComparisonReport
from evaluator.comparison.comparison_page import comparison_blocks, example_blocks
from evaluator.comparison.differences_chart import PairDifferences, differences_chart
from evaluator.metrics.metric_table import DEFAULT_METRICS
from evaluator.pages.html_page import page_sections
from evaluator.pages.page_blocks import Block, ChartImage, Table
from evaluator.pages.step_page import ShownStep, StepPage
from evaluator.report.report_page import report_page
from evaluator.report.run_report import Report
from evaluator.service.form_experiment import BundledExperiment
from evaluator.service.job_state import JobState

# Those of the form that starts an experiment; a file of one may name any of the table.
METRICS = (*DEFAULT_METRICS, "Recall@10", "success@10", "bpref")


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in the list. `name`: its experiment and when it began. `verdict`: empty where it has no report.

    `dataset` and `pipelines` are empty where its experiment cannot be read.
    """

    state: JobState
    name: str
    dataset: str
    pipelines: tuple[str, ...]
    verdict: str


@dataclass(frozen=True, slots=True)
class ShownRun:
    """What the page of a run shows, as far as it is there. `svgs`: charts by path within the run's folder.

    `blocks`: of a run without a report, what it has measured. `cancellable`: the service runs it, and no command.
    `stale`: why the report that is there cannot be shown. `measuring`: figures and report are being written anew.
    `steps`: those that a page of their own shows.
    """

    state: JobState
    name: str
    report: Report | None
    svgs: Mapping[str, str]
    blocks: Sequence[Block]
    cancellable: bool = False
    stale: str = ""
    measuring: bool = False
    steps: Sequence[ShownStep[Any]] = ()


@dataclass(frozen=True, slots=True)
class OfferedRun:
    """A run whose pipelines can be ticked. `words`: a pair of `RUN:PIPELINE` and the pipeline's name for each."""

    title: str
    words: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ComparedChoice:
    """The form of a comparison, as it is filled in. `others`: runs over the same dataset that are not compared."""

    runs: tuple[OfferedRun, ...]
    others: tuple[OfferedRun, ...]
    ticked: frozenset[str]
    baseline: str

    @property
    def every(self) -> tuple[OfferedRun, ...]:
        """All runs, whose pipelines can be the baseline."""
        return (*self.runs, *self.others)


@dataclass(frozen=True, slots=True)
class NewForm:
    """The form that starts an experiment, as it was filled in. `served`: the gateway's pipelines; none: no answer.

    `error`: what was wrong, empty at first.
    """

    served: tuple[str, ...]
    fields: Mapping[str, str] = field(default_factory=dict)
    pipelines: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    error: str = ""


class ServicePages:
    """Renders from the templates of one process."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def runs(self, listed: Sequence[ListedRun], page: int, pages: int, runs: int) -> str:
        """Renders a page of the list of runs. `page`: from 1; `runs`: how many there are in all."""
        return self._rendered("runs.html", here="/", listed=listed, page=page, pages=pages, count=runs)

    def run(self, run: ShownRun) -> str:
        """Renders the page of a run: its report, or what there is of it."""
        return self._rendered(
            "run.html",
            here="",
            run=run,
            page=report_page(run.report, run.svgs) if run.report is not None else None,
            sections=page_sections(run.blocks, run.svgs),
        )

    def progress(self, run: ShownRun) -> str:
        """Renders the part of a run's page that changes while it runs."""
        return self._rendered("progress.html", here="", run=run)

    def step(self, run: str, page: StepPage) -> str:
        """Renders the page of a step of a run."""
        return self._rendered("step.html", here="", run=run, page=page, sections=page_sections(page.blocks, page.svgs))

    def comparison(self, report: ComparisonReport, choice: ComparedChoice, words: Sequence[str]) -> str:
        """Renders a comparison of what the words name."""
        metric = report.pairs[0].verdict.metric
        chart = differences_chart([PairDifferences(pair.verdict, pair.differences) for pair in report.pairs])
        blocks: list[Block] = comparison_blocks(report)
        if chart is not None:
            after = next(at for at, block in enumerate(blocks) if isinstance(block, Table))
            blocks.insert(after - 1, ChartImage("differences", "Differences, query by query"))
        return self._rendered(
            "compare.html",
            here="",
            report=report,
            choice=choice,
            metric=metric,
            metrics=dict.fromkeys([*METRICS, metric]),
            runs=dict.fromkeys(word.partition(":")[0] for word in words),
            sections=page_sections([*blocks, *example_blocks(report)], {"differences": chart or ""}),
        )

    def comparing(self, runs: Sequence[str]) -> str:
        """Renders the page of a comparison that is being computed."""
        why = "Tests and intervals are drawn ten thousand times, which takes a while with thousands of queries."
        return self._rendered("waiting.html", here="", title="Comparing", why=why, runs=runs)

    def new(self, experiments: Sequence[BundledExperiment], datasets: Sequence[str], form: NewForm) -> str:
        """Renders the form that starts an experiment. What was sent can be chosen too: it comes back ticked."""
        own = [name for experiment in experiments for name in experiment.pipelines]
        return self._rendered(
            "new.html",
            here="/new",
            experiments=experiments,
            datasets=datasets,
            pipelines=dict.fromkeys([*form.served, *own, *form.pipelines]),
            metrics=dict.fromkeys([*METRICS, *form.metrics]),
            form=form,
        )

    def problem(self, status: int, title: str, detail: str) -> str:
        """Renders an error."""
        return self._rendered("problem.html", here="", status=status, title=title, detail=detail)

    def judging(self, template: str, **values: object) -> str:
        """Renders a page of judging."""
        return self._rendered(template, here="/judge", **values)

    def _rendered(self, template: str, **values: object) -> str:
        return self._environment.get_template(template).render(**values)
