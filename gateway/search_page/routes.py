"""The routes of the pages: HTTP in and out. A search of the page is one like any other caller's."""

import secrets

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from gateway.collections.generations import Generations
from gateway.search.catalog import Catalog
from gateway.search.execute import Executor
from gateway.search_page.content import PageContent, answered_page, empty_page
from gateway.search_page.form import SEEDS, Offered, PageSearch, TypedForm
from gateway.search_page.rendering import PageFiles
from gateway.search_page.sides import Outcome
from services.chassis.access.page_headers import PAGE_HEADERS
from services.chassis.admission.lanes import client_of
from services.chassis.app import router
from services.chassis.deadlines import current_deadline, set_deadline
from services.chassis.errors import BadInput, ProblemError
from services.chassis.requests.handling import handled
from services.chassis.requests.telemetry import stages_apart


def page_routes(executor: Executor, catalog: Catalog, generations: Generations, files: PageFiles) -> APIRouter:
    """Returns the routes of the page, of the list of routes, and of the files that both load."""
    routes = router()

    def rendered(content: PageContent) -> Response:
        return files.page("search.html", content.status, content.headers, page=content)

    @routes.get("/", include_in_schema=False)
    @handled("own", scope="search", page=True)
    async def search_page(received: Request) -> Response:
        views = {view.name: view for view in catalog.views().pipelines}
        offered = Offered(generations.live_names(), tuple(views))
        form = TypedForm.of(received.query_params, offered)
        if not form.submitted:
            return rendered(empty_page(form, offered))
        try:
            asked = form.checked()
        except BadInput as error:
            return rendered(empty_page(form, offered, error))
        if asked.unseeded:
            return RedirectResponse(form.seeded(secrets.randbelow(SEEDS)), 303, PAGE_HEADERS)
        outcomes = await _outcomes(executor, asked, client_of(received.scope))
        return rendered(answered_page(form, offered, asked, outcomes, views))

    @routes.get("/docs", include_in_schema=False)
    @handled("control", scope="search", page=True)
    async def list_routes(received: Request) -> Response:
        paths = received.app.openapi()["paths"]
        listed = [
            (method.upper(), path, one["description"]) for path, of in paths.items() for method, one in of.items()
        ]
        return files.page("docs.html", listed=listed)

    @routes.get("/page/{name}", include_in_schema=False)
    @handled(scope="open", logged=False)
    async def asset(name: str) -> Response:
        return files.asset(name)

    return routes


async def _outcomes(executor: Executor, asked: PageSearch, client: str) -> tuple[Outcome, ...]:
    """Searches with one pipeline after the other, so that neither slows the other down. Each has its share of time."""
    deadline = current_deadline()
    outcomes: list[Outcome] = []
    for place, pipeline in enumerate(asked.pipelines):
        set_deadline(deadline.after_share(1 / (len(asked.pipelines) - place)))
        try:
            with stages_apart():
                outcomes.append(await executor.search(asked.collection, asked.request(pipeline), client))
        except ProblemError as error:
            outcomes.append(error)
    return tuple(outcomes)
