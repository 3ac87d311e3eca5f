"""The routes of the pages, their templates and files. A search of the page is one like any other caller's."""

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gateway.collections.generations import Generations
from gateway.search.catalog import Catalog
from gateway.search.execute import Executor
from gateway.search_page.form import SEEDS, Offered, PageSearch, TypedForm
from gateway.search_page.sides import Outcome, ShownProblem, ShownSide, shown_sides
from services.chassis.admission.lanes import client_of
from services.chassis.app import router
from services.chassis.deadlines import current_deadline, set_deadline
from services.chassis.errors import BadInput, NotFound, ProblemError
from services.chassis.page_headers import ASSET_HEADERS, PAGE_HEADERS
from services.chassis.requests.handling import handled
from services.chassis.requests.rendering import Wording
from services.chassis.requests.telemetry import stages_apart
from services.contracts.pipelines import PipelineView
from services.contracts.problem import Problem

FILES = Path(__file__).parent / "files"
PAGES = ("search.html", "docs.html", "problem.html")
# What a page may load besides itself, by name and media type.
ASSETS = {"page.css": "text/css", "icon.svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class PageContent:
    """What the page shows.

    `hidden`: names, scores, times and stages of the lists are not shown; `opened` is the URL that shows them.
    `replaced`: another generation of the collection was published between the two searches, so the lists cannot be
    compared.
    """

    form: TypedForm
    collections: tuple[str, ...]
    pipelines: tuple[str, ...]
    sides: tuple[ShownSide, ...] = ()
    problem: ShownProblem | None = None
    retry_after_s: int | None = None
    hidden: bool = False
    opened: str = ""
    replaced: bool = False
    status: int = 200

    @property
    def headers(self) -> Mapping[str, str]:
        """Its headers beside those of every page."""
        return {} if self.retry_after_s is None else {"retry-after": str(self.retry_after_s)}


class PageFiles:
    """The templates and the assets. `evaluator`: where the evaluator's pages are, to which every page links."""

    def __init__(self, evaluator: str | None = None) -> None:
        environment = Environment(
            loader=FileSystemLoader(FILES),
            autoescape=True,
            auto_reload=False,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._assets = {name: (FILES / name).read_bytes() for name in ASSETS}
        environment.globals["asset"] = {
            name: f"/page/{name}?{hashlib.sha256(content).hexdigest()[:12]}" for name, content in self._assets.items()
        }
        environment.globals["evaluator"] = evaluator
        # Compiled now: a fault in a template is one of the start, not of the first request.
        self._templates = {name: environment.get_template(name) for name in PAGES}

    def page(
        self, template: str, status: int = 200, headers: Mapping[str, str] = MappingProxyType({}), **values: object
    ) -> Response:
        """Renders a template as an answer. All values are escaped."""
        content = self._templates[template].render(**values)
        return HTMLResponse(content, status, {**PAGE_HEADERS, **headers})

    def asset(self, name: str) -> Response:
        """Returns a file that the pages load. Raises NotFound."""
        if name not in self._assets:
            raise NotFound(f"There is no file '{name}' of the page; there are: {', '.join(ASSETS)}.")
        return Response(self._assets[name], 200, ASSET_HEADERS, media_type=ASSETS[name])

    def wording(self) -> Wording:
        """Returns how errors look where a browser asks for a page, also those raised before its route is reached."""

        def worded(problem: Problem) -> Response:
            shown = ShownProblem(problem.status, problem.title, problem.detail)
            return self.page("problem.html", problem.status, problem=shown, request_id=problem.request_id)

        return worded


@cache
def page_files(evaluator: str | None = None) -> PageFiles:
    """Reads and compiles the files, once per process."""
    return PageFiles(evaluator)


def page_routes(executor: Executor, catalog: Catalog, generations: Generations, files: PageFiles) -> APIRouter:
    """Returns the routes of the page, of the list of routes, and of the files that both load."""
    routes = router()

    def rendered(content: PageContent) -> Response:
        return files.page("search.html", content.status, content.headers, page=content)

    @routes.get("/", include_in_schema=False)
    @handled("own", scope="search", page=True)
    async def search_page(received: Request) -> Response:
        views = {view.name: view for view in catalog.views().pipelines}
        collections = tuple(name for name in generations.names() if generations.live(name) is not None)
        chosen = received.query_params.get("collection", next(iter(collections), ""))
        offered = Offered(collections, executor.served(chosen))
        form = TypedForm.of(received.query_params, offered)
        if not form.submitted:
            return rendered(_empty_page(form, offered))
        try:
            search = form.checked()
        except BadInput as error:
            return rendered(_empty_page(form, offered, error))
        if search.unseeded:
            return RedirectResponse(form.seeded(secrets.randbelow(SEEDS)), 303, PAGE_HEADERS)
        outcomes = await _outcomes(executor, search, client_of(received.scope))
        return rendered(_answered_page(form, offered, search, outcomes, views))

    @routes.get("/docs", include_in_schema=False)
    @handled("control", scope="search", page=True)
    async def list_routes(received: Request) -> Response:
        paths = received.app.openapi()["paths"]
        listed = [
            (method.upper(), path, route["description"]) for path, of in paths.items() for method, route in of.items()
        ]
        return files.page("docs.html", listed=listed)

    @routes.get("/page/{name}", include_in_schema=False)
    @handled(scope="open", logged=False)
    async def asset(name: str) -> Response:
        return files.asset(name)

    return routes


async def _outcomes(executor: Executor, search: PageSearch, client: str) -> tuple[Outcome, ...]:
    """Searches with one pipeline after the other, so that neither slows the other down. Each has its share of time."""
    deadline = current_deadline()
    outcomes: list[Outcome] = []
    for place, pipeline in enumerate(search.pipelines):
        set_deadline(deadline.after_share(1 / (len(search.pipelines) - place)))
        try:
            with stages_apart():
                outcomes.append(await executor.search(search.collection, search.request(pipeline), client))
        except ProblemError as error:
            outcomes.append(error)
    return tuple(outcomes)


def _empty_page(form: TypedForm, offered: Offered, problem: ProblemError | None = None) -> PageContent:
    """Returns the form alone, or with the problem that left nothing else to show."""
    # What was typed stays chosen although it is not offered: a choice must not change silently.
    collections = _with(offered.collections, form.collection)
    pipelines = _with(offered.pipelines, form.left, form.right)
    if problem is None:
        return PageContent(form, collections, pipelines)
    shown, status = ShownProblem.of(problem), problem.status
    return PageContent(form, collections, pipelines, (), shown, problem.retry_after_s, status=status)


def _answered_page(
    form: TypedForm,
    offered: Offered,
    search: PageSearch,
    outcomes: Sequence[Outcome],
    views: Mapping[str, PipelineView],
) -> PageContent:
    """Returns the lists. The status is that of the first problem where no search has an answer, else 200."""
    problems = [outcome for outcome in outcomes if isinstance(outcome, ProblemError)]
    if len(problems) == len(outcomes) and len({problem.detail for problem in problems}) == 1:
        return _empty_page(form, offered, problems[0])
    sides = shown_sides(search, outcomes, views)
    generations = {side.answer.collection for side in sides if side.answer is not None}
    failed = problems[0] if len(problems) == len(outcomes) else None
    return PageContent(
        form,
        _with(offered.collections, form.collection),
        _with(offered.pipelines, form.left, form.right),
        sides,
        retry_after_s=None if failed is None else failed.retry_after_s,
        hidden=search.blind and not problems and len(generations) == 1,
        opened=form.opened(search.pipelines),
        replaced=len(generations) > 1,
        status=200 if failed is None else failed.status,
    )


def _with(names: tuple[str, ...], *typed: str) -> tuple[str, ...]:
    return (*names, *(name for name in dict.fromkeys(typed) if name and name not in names))
