"""HTTP routes of the pages: list of runs, a run, its progress, comparisons, the form that starts an experiment."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError

from evaluator.attribution.attribution_page import ATTRIBUTION_STEP
from evaluator.comparison.compared_rankings import NoPair
from evaluator.comparison.comparing import ComparisonSettings
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, bundled_directory, read_experiment, selected_pipelines
from evaluator.experiments.suite import Suite, read_plan
from evaluator.metrics.metric_table import DEFAULT_METRICS
from evaluator.online.online_page import online_page
from evaluator.online.online_report import OnlineReport, online_reports
from evaluator.pages.html_page import PAGE_FILES, page_file, page_sections, style_sheet
from evaluator.pages.step_page import ShownStep
from evaluator.replay.tuning_page import REPLAY_STEP
from evaluator.report.report_page import report_page
from evaluator.runs.run_folder import WRITTEN_BY
from evaluator.service.background_work import BackgroundWork
from evaluator.service.comparisons import Comparisons, compared_choice, compared_sections, ordered_words
from evaluator.service.jobs import COMPARED_RUN, Jobs
from evaluator.service.page_answers import (
    AGAIN_S,
    FormFields,
    PageAnswers,
    form_fields,
    one_page,
    see_other,
    whole_number,
)
from evaluator.service.served_files import ServedDatasets
from evaluator.service.shown_runs import listed_runs, shown_run
from services.chassis.app import router
from services.chassis.errors import BadInput, NotFound, ProblemError
from services.chassis.page_headers import PAGE_HEADERS
from services.chassis.requests.callers import note_run
from services.chassis.requests.handling import handled
from services.contracts.pipelines import Pipeline, Retrieve

MOST_COMPARED = 64  # runs, or pipelines of them
# Those of the form that starts an experiment; a file of one may name any of the table.
METRICS = (*DEFAULT_METRICS, "Recall@10", "success@10", "bpref")
EMPTY = FormFields()
COMPARING = "Tests and intervals are drawn ten thousand times, which takes a while with thousands of queries."


def page_routes(
    jobs: Jobs,
    comparisons: Comparisons,
    datasets: ServedDatasets,
    answers: PageAnswers,
    measures: Callable[[str], bool],
) -> APIRouter:
    """Builds the routes of runs, comparisons and the form that starts an experiment.

    `measures`: whether a run is being measured again by judgments. Its files do not fit together meanwhile.
    """
    routes = router()

    @routes.get("/", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def runs(page: str = "1") -> Response:
        return await asyncio.to_thread(_runs, jobs, answers, whole_number(page))

    @routes.get("/runs/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def run(run: str) -> Response:
        before = measures(run)
        shown = await asyncio.to_thread(shown_run, jobs, run)
        measuring = before or measures(run)  # while it was read
        return answers.page(
            "run.html",
            code=409 if shown.stale and not measuring else 200,
            refresh=str(AGAIN_S) if shown.stale and measuring else "",
            run=shown,
            state=shown.state,
            measuring=measuring,
            page=report_page(shown.report, shown.svgs) if shown.report is not None else None,
            sections=page_sections(shown.blocks, shown.svgs),
        )

    @routes.get("/progress/{run:path}", include_in_schema=False)
    @handled(scope="search", logged=False, page=True)
    @answers.reporting
    async def progress(run: str) -> Response:
        return answers.page("progress.html", state=await asyncio.to_thread(jobs.expect, run))

    @routes.get("/attribution/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def attribution(run: str) -> Response:
        return await asyncio.to_thread(_step, jobs, answers, run, ATTRIBUTION_STEP)

    @routes.get("/replay/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def replay(run: str) -> Response:
        return await asyncio.to_thread(_step, jobs, answers, run, REPLAY_STEP)

    @routes.get("/compare", include_in_schema=False)
    @handled(scope="search", slow=True, page=True)
    @answers.reporting
    async def compare(
        runs: Annotated[Sequence[str], Query()] = (), metric: str = "nDCG@10", baseline: str = "", examples: str = "3"
    ) -> Response:
        if not 1 <= len(set(runs)) <= MOST_COMPARED:
            raise BadInput(f"Choose 1 to {MOST_COMPARED} runs to compare; the list of runs has a box for each.")
        for word in (*runs, *filter(None, [baseline])):
            if not COMPARED_RUN.fullmatch(word):
                raise NotFound(f"{word} is no run here; the list of runs has all.")
            jobs.expect(word.partition(":")[0])
        words = await asyncio.to_thread(ordered_words, jobs, runs, baseline)
        try:
            settings = ComparisonSettings(metric=metric.strip(), examples=whole_number(examples))
        except ValidationError as error:
            raise BadInput("; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors())) from error
        try:
            report = await comparisons.report_soon(words, settings)
            if report is None:
                return answers.waiting("Comparing", COMPARING, words=words)
        except NoPair:
            report = None  # the page asks for the pipelines
        metric = settings.metric if report is None else report.metric
        return answers.page(
            "compare.html",
            report=report,
            choice=await asyncio.to_thread(compared_choice, jobs, words, report is None),
            metric=metric,
            metrics=dict.fromkeys([*METRICS, metric]),
            runs=dict.fromkeys(word.partition(":")[0] for word in words),
            sections=() if report is None else await asyncio.to_thread(compared_sections, report),
        )

    @routes.get("/new", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def new() -> Response:
        served = await jobs.served_pipelines()
        return await asyncio.to_thread(_new, answers, datasets, served)

    @routes.post("/new", include_in_schema=False)
    @handled(scope="admin", form=True, page=True)
    @answers.reporting
    async def start(request: Request) -> Response:
        fields = await form_fields(request)
        pipelines, metrics = fields.getlist("pipelines"), fields.getlist("metrics")
        try:
            experiment = await asyncio.to_thread(form_experiment, fields, pipelines, metrics, datasets)
            state = jobs.start(await jobs.startable(experiment))
        except (ProblemError, EvaluationError) as error:
            problem = error if isinstance(error, ProblemError) else BadInput(f"{error}.")
            served = await jobs.served_pipelines()
            return await asyncio.to_thread(_new, answers, datasets, served, fields, problem)
        note_run(request.scope, state.id)
        return see_other(f"/runs/{state.id}")

    @routes.post("/cancel/{run:path}", include_in_schema=False)
    @handled(scope="admin", slow=True, form=True, page=True)
    @answers.reporting
    async def cancel(run: str) -> Response:
        await jobs.cancel(jobs.expect(run).id)
        return see_other(f"/runs/{run}")

    @routes.get("/pages/{name}", include_in_schema=False)
    @handled(scope="open")
    async def file(name: str) -> Response:
        if name == "style.css":
            return Response(style_sheet(), media_type="text/css", headers=PAGE_HEADERS)
        if name not in PAGE_FILES:
            raise NotFound(f"No file {name} of a page here.")
        return Response(page_file(name), media_type=PAGE_FILES[name], headers=PAGE_HEADERS)

    return routes


def online_routes(
    journal: str | None, reading: BackgroundWork[datetime, list[OnlineReport]], answers: PageAnswers
) -> APIRouter:
    """Builds the route of online experiments, whose page is as of a time; without one it is sent on to the present."""
    routes = router()

    @routes.get("/online", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.reporting
    async def online(now: datetime | None = None) -> Response:
        if journal is None:
            raise NotFound("There is no journal of online experiments here; EVALUATOR_JOURNAL names one.")
        if now is None:
            return see_other(f"/online?now={datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
        now = now.replace(tzinfo=now.tzinfo or UTC)
        if not reading.holds(now):
            reading.start(now, partial(online_reports, [journal], now))
        reports = await reading.result(now)
        if reports is None:
            return answers.waiting("Reading", "A journal of a million searches takes a minute.")
        return answers.page("step.html", "/online", run="", page=online_page(reports))

    return routes


def _runs(jobs: Jobs, answers: PageAnswers, page: int) -> Response:
    names = jobs.names()
    shown, pages = one_page(names, page)
    return answers.page("runs.html", "/", listed=listed_runs(jobs, shown), page=page, pages=pages, count=len(names))


def _step(jobs: Jobs, answers: PageAnswers, run: str, step: ShownStep[Any]) -> Response:
    page = step.own_page(jobs.folder(jobs.expect(run).id))
    if page is None:
        raise NotFound(f"Run {run} has no {step.name} here; `{jobs.command(WRITTEN_BY[step.file], run)}` makes it.")
    return answers.page("step.html", run=run, page=page)


def _new(
    answers: PageAnswers,
    datasets: ServedDatasets,
    served: Sequence[Pipeline],
    fields: FormFields = EMPTY,
    error: ProblemError | None = None,
) -> Response:
    """Returns the form that starts an experiment. `served`: the gateway's pipelines; none: it does not answer.

    `fields`: what was filled in before, where that led to an error.
    """
    experiments = bundled_experiments()
    # What the gateway serves by presets that these experiments declare, and pipelines of their own.
    presets = {None, *(one if isinstance(one, str) else one.name for _, each in experiments for one in each.presets)}
    legs = {one.name: [leg.stage for leg in one.identified if isinstance(leg.stage, Retrieve)] for one in served}
    offered = [name for name, stages in legs.items() if presets.issuperset(stage.preset for stage in stages)]
    every = [one for _, each in experiments for one in each.pipelines if not served or not isinstance(one, str)]
    offered += [one if isinstance(one, str) else one.name for one in every]
    return answers.page(
        "new.html",
        "/new",
        code=200 if error is None else error.status,
        experiments=experiments,
        datasets=dict.fromkeys([*datasets.names(), *fields.getlist("dataset")]),
        served=served,
        pipelines=dict.fromkeys([*offered, *fields.getlist("pipelines"), *fields.getlist("baseline")]),
        metrics=dict.fromkeys([*METRICS, *fields.getlist("metrics")]),
        fields=fields,
        error="" if error is None else error.detail,
    )


def bundled_experiments() -> list[tuple[str, Experiment]]:
    """Returns the bundled experiments by name, also those whose dataset is not served: the form can name another."""
    # read_plan would need the datasets.
    return [(path.stem, read_experiment(path)) for path in sorted(bundled_directory().glob("*.yaml"))]


def form_experiment(
    fields: Mapping[str, str], pipelines: Sequence[str], metrics: Sequence[str], datasets: ServedDatasets
) -> Experiment:
    """Reads the fields `experiment`, `dataset`, `baseline`, `queries`, and what was ticked; empty ones change nothing.

    A baseline is measured beside what was ticked. A pipeline that the experiment does not define is one that the
    gateway serves. Raises EvaluationError.
    """
    name = fields.get("experiment", "")
    path = bundled_directory() / f"{name}.yaml"
    if name not in {file.stem for file in bundled_directory().glob("*.yaml")}:
        raise EvaluationError(f"experiment: {name or 'none'} is no bundled experiment; choose one of the list")
    overrides: dict[str, object] = {}
    if dataset := fields.get("dataset", "").strip():
        datasets.located(dataset)  # before anything else looks at the path
        overrides["dataset"] = dataset
    if queries := fields.get("queries", "").strip():
        try:
            overrides["queries"] = int(queries)
        except ValueError as error:
            raise EvaluationError(f"queries: {queries} is no number; leave it empty for all judged queries") from error
    if metrics:
        overrides["metrics"] = list(metrics)
    base = _experiment(path, datasets, **overrides)
    if baseline := fields.get("baseline", ""):
        overrides["baseline"] = baseline
        named = pipelines or [str(getattr(one, "name", one)) for one in base.pipelines]
        pipelines = named if baseline in named else [baseline, *named]
    if pipelines:
        overrides["pipelines"] = selected_pipelines(base, pipelines)
    return _experiment(path, datasets, **overrides)


def _experiment(path: Path, datasets: ServedDatasets, **overrides: object) -> Experiment:
    try:
        plan = read_plan(path, datasets.located, **overrides)
    except EvaluationError as error:
        raise EvaluationError(str(error).removeprefix(f"{path}: ")) from error
    if isinstance(plan, Suite):
        raise EvaluationError(
            f"{plan.name} has several datasets, which the service does not run; name one of them under dataset"
        )
    return plan
