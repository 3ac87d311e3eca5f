"""HTTP routes of the pages: list of runs, a run, its progress, comparisons, the form that starts an experiment."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, ParamSpec
from urllib.parse import parse_qsl

from fastapi import APIRouter, Cookie, Query, Request, Response
from pydantic import ValidationError

from evaluator.client import GatewayError
from evaluator.comparison.comparing import ComparisonSettings
from evaluator.comparison_cache import ComparisonCache, TooManyComparisons
from evaluator.errors import EvaluationError
from evaluator.form_experiment import bundled_experiments, form_experiment, known_datasets
from evaluator.form_tokens import COOKIE, FIELD, FormTokens
from evaluator.job_state import COMPARED_RUN, RUN_NAME
from evaluator.jobs import ExperimentRunning, Jobs, NotCancellable
from evaluator.page_blocks import tables_of
from evaluator.pages.environment import style_sheet, watch_script
from evaluator.pages.service_pages import ServicePages
from evaluator.report_blocks import report_blocks
from evaluator.shown_runs import listed_runs, shown_run
from evaluator.table_files import render_csv, render_latex
from services.chassis.app import router
from services.chassis.errors import BadInput, Conflict, NotFound, ProblemError, Unavailable
from services.chassis.handling import handled

A_PAGE = 50  # runs
MOST_COMPARED = 16
# Nothing is loaded but our own style sheet and, on the page of a running experiment, our own script.
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
FormCookie = Annotated[str | None, Cookie(alias=COOKIE)]
P = ParamSpec("P")


class RefusedForm(ProblemError):
    """A form that no page of this process has made for this reader."""

    status, kind, title = 403, "refused-form", "Refused form"


def page_routes(jobs: Jobs, comparisons: ComparisonCache) -> APIRouter:
    """Builds the routes of all pages. Errors are pages too."""
    routes, pages, tokens = router(), ServicePages(), FormTokens()

    def as_page(route: Callable[P, Awaitable[Response]]) -> Callable[P, Awaitable[Response]]:
        @wraps(route)
        async def answered(*given: P.args, **named: P.kwargs) -> Response:
            try:
                return await route(*given, **named)
            except ProblemError as error:
                return _html(pages.problem(error.status, error.title, error.detail), error.status)
            except TooManyComparisons as error:
                return _html(pages.problem(503, "Too many comparisons", f"{error}."), 503, {"refresh": "5"})
            except EvaluationError as error:
                return _html(pages.problem(409, "This cannot be shown", f"{error}."), 409)

        return answered

    def form_page(html: Callable[[str], str], cookie: str | None, status: int = 200) -> Response:
        """Returns a page with a form, and the cookie that its token belongs to."""
        nonce = tokens.nonce(cookie)
        answer = _html(html(tokens.token(nonce)), status)
        answer.set_cookie(COOKIE, nonce, httponly=True, samesite="strict")
        return answer

    async def form_fields(request: Request, cookie: str | None) -> Mapping[str, str]:
        """Reads a form. Raises RefusedForm unless one of our pages has made it for this reader."""
        try:
            fields = dict(parse_qsl((await request.body()).decode(), max_num_fields=32, keep_blank_values=True))
        except ValueError as error:
            raise BadInput("The form cannot be read; load its page again and fill it in.") from error
        if not tokens.holds(cookie, fields.get(FIELD, "")):
            raise RefusedForm("This form is of no page of this service, or of one before its restart: load it again.")
        return fields

    @routes.get("/", include_in_schema=False)
    @as_page
    async def runs(page: str = "1") -> Response:
        return await asyncio.to_thread(_runs, jobs, pages, _number(page))

    @routes.get("/runs/{run:path}", include_in_schema=False)
    @as_page
    async def run(run: str, evaluator_form: FormCookie = None) -> Response:
        found = await asyncio.to_thread(shown_run, jobs, _known(jobs, run))
        return form_page(lambda token: pages.run(found, token), evaluator_form)

    @routes.get("/progress/{run:path}", include_in_schema=False)
    @handled(logged=False)
    @as_page
    async def progress(run: str) -> Response:
        found = await asyncio.to_thread(shown_run, jobs, _known(jobs, run), False)
        return _html(pages.progress(found), 200, {"x-run-state": found.state.state})

    @routes.get("/tables/{run:path}/{file}", include_in_schema=False)
    @as_page
    async def table(run: str, file: str) -> Response:
        found = await asyncio.to_thread(jobs.report, _known(jobs, run))
        name, _, suffix = file.rpartition(".")
        tables = {one.name: one for one in tables_of(report_blocks(found))} if found is not None else {}
        if name not in tables or suffix not in ("csv", "tex"):
            raise NotFound(f"Run {run} has no table {file}; its page lists those that it has.")
        text = render_csv(tables[name]) if suffix == "csv" else render_latex(tables[name])
        media = "text/csv" if suffix == "csv" else "text/plain"
        return Response(text, media_type=f"{media}; charset=utf-8", headers=HEADERS)

    @routes.get("/compare", include_in_schema=False)
    @handled(slow=True)
    @as_page
    async def compare(
        runs: Annotated[Sequence[str], Query()] = (), metric: str = "nDCG@10", examples: str = "3"
    ) -> Response:
        words = list(dict.fromkeys(runs))
        if not 1 <= len(words) <= MOST_COMPARED:
            raise BadInput(f"Choose 1 to {MOST_COMPARED} runs to compare; the list of runs has a box for each.")
        for word in words:
            if not COMPARED_RUN.fullmatch(word):
                raise NotFound(f"{word} is no run here; the list of runs has all.")
            _known(jobs, word.partition(":")[0])
        try:
            settings = ComparisonSettings(metric=metric.strip(), examples=_number(examples))
        except ValidationError as error:
            raise BadInput("; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors())) from error
        report = await comparisons.report(words, settings, jobs.running)
        if report is None:
            return _html(pages.comparing(words), 200, {"refresh": "2"})
        return _html(await asyncio.to_thread(pages.comparison, report, words))

    @routes.get("/new", include_in_schema=False)
    @as_page
    async def new(evaluator_form: FormCookie = None) -> Response:
        return await asyncio.to_thread(form_page, _new(pages, _EMPTY, ""), evaluator_form)

    @routes.post("/new", include_in_schema=False)
    @handled(form=True)
    @as_page
    async def start(request: Request, evaluator_form: FormCookie = None) -> Response:
        fields = await form_fields(request, evaluator_form)
        try:
            experiment = await asyncio.to_thread(form_experiment, fields)
            await jobs.expect_startable(experiment)
            state = jobs.start(experiment)
        except ExperimentRunning as error:
            said, status = str(error), 409
        except GatewayError as error:
            said, status = f"{error}.", 404 if error.status == 404 else 503
        except EvaluationError as error:
            said, status = f"{error}.", 422
        except OSError as error:
            raise Unavailable(f"{jobs.write_error_message(error)}; see EVALUATOR_RUNS.") from error
        else:
            return _see(f"/runs/{state.id}")
        return await asyncio.to_thread(form_page, _new(pages, {**_EMPTY, **fields}, said), evaluator_form, status)

    @routes.post("/cancel/{run:path}", include_in_schema=False)
    @handled(form=True)
    @as_page
    async def cancel(request: Request, run: str, evaluator_form: FormCookie = None) -> Response:
        await form_fields(request, evaluator_form)
        try:
            await jobs.cancel(_known(jobs, run))
        except NotCancellable as error:
            raise Conflict(str(error)) from error
        return _see(f"/runs/{run}")

    @routes.get("/pages/style.css", include_in_schema=False)
    async def css() -> Response:
        return Response(style_sheet(), media_type="text/css", headers=HEADERS)

    @routes.get("/pages/watch.js", include_in_schema=False)
    async def script() -> Response:
        return Response(watch_script(), media_type="text/javascript", headers=HEADERS)

    return routes


_EMPTY: Mapping[str, str] = {"experiment": "", "dataset": "", "pipelines": "", "queries": ""}


def _runs(jobs: Jobs, pages: ServicePages, page: int) -> Response:
    names = jobs.names()
    last = max(1, -(-len(names) // A_PAGE))
    if not 1 <= page <= last:
        raise NotFound(f"The list of runs has the pages 1 to {last}.")
    listed = listed_runs(jobs, names[(page - 1) * A_PAGE : page * A_PAGE])
    return _html(pages.runs(listed, page, last, len(names)))


def _new(pages: ServicePages, fields: Mapping[str, str], error: str) -> Callable[[str], str]:
    return lambda token: pages.new(bundled_experiments(), known_datasets(), fields, token, error)


def _known(jobs: Jobs, run: str) -> str:
    """Returns the id of a run that is here. Raises NotFound: no file is read by a name that a caller chose."""
    if not RUN_NAME.fullmatch(run) or jobs.state(run) is None:
        raise NotFound(f"No run {run} here; the list of runs has all.")
    return run


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 6:
        raise BadInput(f"{text[:20]} is no page or number.")
    return int(text)


def _html(html: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(html, status, HEADERS | dict(headers or {}), media_type="text/html; charset=utf-8")


def _see(path: str) -> Response:
    """Sends the reader on to a page, so that loading it again does not send the form again."""
    return Response(status_code=303, headers=HEADERS | {"location": path})
