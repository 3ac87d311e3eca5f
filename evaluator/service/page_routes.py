"""HTTP routes of the pages: list of runs, a run, its progress, comparisons, the form that starts an experiment."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import ValidationError

from evaluator.attribution.page import ATTRIBUTION_STEP
from evaluator.client.client import GatewayError
from evaluator.comparison.comparing import ComparisonSettings
from evaluator.errors import EvaluationError
from evaluator.pages.html_page import PAGE_FILES, page_file, style_sheet
from evaluator.pages.step_page import ShownStep
from evaluator.replay.page import REPLAY_STEP
from evaluator.runs.run_folder import WRITTEN_BY
from evaluator.service.compared_choice import compared_choice, ordered_words
from evaluator.service.comparison_cache import ComparisonCache
from evaluator.service.form_experiment import bundled_experiments, form_experiment
from evaluator.service.job_state import COMPARED_RUN
from evaluator.service.jobs import ExperimentRunning, Jobs, NotCancellable
from evaluator.service.page_answers import (
    WAITING,
    PageAnswers,
    form_fields,
    html_answer,
    known_run,
    page_number,
    see_other,
)
from evaluator.service.served_datasets import ServedDatasets
from evaluator.service.service_pages import NewForm, ServicePages
from evaluator.service.shown_runs import listed_runs, shown_run
from services.chassis.app import router
from services.chassis.errors import BadInput, Conflict, NotFound, Unavailable
from services.chassis.page_headers import PAGE_HEADERS
from services.chassis.requests.callers import note_run
from services.chassis.requests.handling import handled

A_PAGE = 50  # runs
MOST_COMPARED = 64  # runs, or pipelines of them


def page_routes(
    jobs: Jobs,
    comparisons: ComparisonCache,
    datasets: ServedDatasets,
    pages: ServicePages,
    answers: PageAnswers,
    measures: Callable[[str], bool],
) -> APIRouter:
    """Builds the routes of runs, comparisons and the form that starts an experiment.

    `measures`: whether a run is being measured again by judgments. Its files do not fit together meanwhile.
    """
    routes = router()

    @routes.get("/", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def runs(page: str = "1") -> Response:
        return await asyncio.to_thread(_runs, jobs, pages, page_number(page))

    @routes.get("/runs/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def run(run: str) -> Response:
        before = measures(known_run(jobs, run))
        found = await asyncio.to_thread(shown_run, jobs, run)
        if before or measures(run):  # while it was read
            waiting = WAITING if found.stale else None
            found = replace(found, measuring=True)
            return html_answer(pages.run(found), 200, waiting)
        status = 409 if found.stale else 200
        return html_answer(pages.run(found), status)

    @routes.get("/progress/{run:path}", include_in_schema=False)
    @handled(scope="search", logged=False, page=True)
    @answers.as_page
    async def progress(run: str) -> Response:
        found = await asyncio.to_thread(shown_run, jobs, known_run(jobs, run), False)
        return html_answer(pages.progress(found), 200, {"x-run-state": found.state.state})

    @routes.get("/attribution/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def attribution(run: str) -> Response:
        return await asyncio.to_thread(_step, jobs, pages, known_run(jobs, run), ATTRIBUTION_STEP)

    @routes.get("/replay/{run:path}", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def replay(run: str) -> Response:
        return await asyncio.to_thread(_step, jobs, pages, known_run(jobs, run), REPLAY_STEP)

    @routes.get("/compare", include_in_schema=False)
    @handled(scope="search", slow=True, page=True)
    @answers.as_page
    async def compare(
        runs: Annotated[Sequence[str], Query()] = (),
        metric: str = "nDCG@10",
        baseline: str = "",
        examples: str = "3",
    ) -> Response:
        if not 1 <= len(set(runs)) <= MOST_COMPARED:
            raise BadInput(f"Choose 1 to {MOST_COMPARED} runs to compare; the list of runs has a box for each.")
        for word in (*runs, *filter(None, [baseline])):
            if not COMPARED_RUN.fullmatch(word):
                raise NotFound(f"{word} is no run here; the list of runs has all.")
            known_run(jobs, word.partition(":")[0])
        words = await asyncio.to_thread(ordered_words, jobs, runs, baseline)
        try:
            settings = ComparisonSettings(metric=metric.strip(), examples=page_number(examples))
        except ValidationError as error:
            raise BadInput("; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors())) from error
        report = await comparisons.report_soon(words, settings)
        if report is None:
            return html_answer(pages.comparing(words), 200, WAITING)
        choice = await asyncio.to_thread(compared_choice, jobs, words)
        return html_answer(await asyncio.to_thread(pages.comparison, report, choice, words))

    @routes.get("/new", include_in_schema=False)
    @handled(scope="search", page=True)
    @answers.as_page
    async def new() -> Response:
        form = NewForm(await jobs.served_pipelines())
        return await asyncio.to_thread(_new, pages, datasets, form)

    @routes.post("/new", include_in_schema=False)
    @handled(scope="admin", form=True, page=True)
    @answers.as_page
    async def start(request: Request) -> Response:
        fields = await form_fields(request)
        pipelines, metrics = tuple(fields.getlist("pipelines")), tuple(fields.getlist("metrics"))
        try:
            experiment = await asyncio.to_thread(form_experiment, fields, pipelines, metrics, datasets)
            state = jobs.start(await jobs.startable(experiment))
        except ExperimentRunning as error:
            problem, status = str(error), 409
        except GatewayError as error:
            problem, status = f"{error}.", 404 if error.status == 404 else 503
        except EvaluationError as error:
            problem, status = f"{error}.", 422
        except OSError as error:
            raise Unavailable(jobs.write_error_message(error)) from error
        else:
            note_run(request.scope, state.id)
            return see_other(f"/runs/{state.id}")
        form = NewForm(await jobs.served_pipelines(), fields, pipelines, metrics, problem)
        return await asyncio.to_thread(_new, pages, datasets, form, status)

    @routes.post("/cancel/{run:path}", include_in_schema=False)
    @handled(scope="admin", slow=True, form=True, page=True)
    @answers.as_page
    async def cancel(run: str) -> Response:
        try:
            await jobs.cancel(known_run(jobs, run))
        except NotCancellable as error:
            raise Conflict(str(error)) from error
        return see_other(f"/runs/{run}")

    @routes.get("/pages/{name}", include_in_schema=False)
    @handled(scope="open")
    @answers.as_page
    async def file(name: str) -> Response:
        if name == "style.css":
            return Response(style_sheet(), media_type="text/css", headers=PAGE_HEADERS)
        if name not in PAGE_FILES:
            raise NotFound(f"No file {name} of a page here.")
        return Response(page_file(name), media_type=PAGE_FILES[name], headers=PAGE_HEADERS)

    return routes


def _runs(jobs: Jobs, pages: ServicePages, page: int) -> Response:
    names = jobs.names()
    last = max(1, -(-len(names) // A_PAGE))
    if not 1 <= page <= last:
        raise NotFound(f"The list of runs has the pages 1 to {last}.")
    listed = listed_runs(jobs, names[(page - 1) * A_PAGE : page * A_PAGE])
    return html_answer(pages.runs(listed, page, last, len(names)))


def _step(jobs: Jobs, pages: ServicePages, run: str, step: ShownStep[Any]) -> Response:
    """Returns the page of a step."""
    found = step.own_page(jobs.folder(run))
    if found is None:
        raise NotFound(f"Run {run} has no {step.name} here; the command `{WRITTEN_BY[step.file]} {run}` makes it.")
    return html_answer(pages.step(run, found))


def _new(pages: ServicePages, datasets: ServedDatasets, form: NewForm, status: int = 200) -> Response:
    return html_answer(pages.new(bundled_experiments(datasets), datasets.names(), form), status)
