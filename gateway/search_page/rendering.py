"""Renders the pages from the templates beside this module, and owns the files that they name."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from fastapi import Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gateway.search_page.sides import ShownProblem
from services.chassis.errors import NotFound
from services.chassis.page_headers import ASSET_HEADERS, PAGE_HEADERS
from services.chassis.requests.rendering import Wording
from services.contracts.problem import Problem

FILES = Path(__file__).parent / "files"
PAGES = ("search.html", "docs.html", "problem.html")
# What a page may load besides itself, by name and media type.
ASSETS = {"page.css": "text/css", "icon.svg": "image/svg+xml"}


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
    """Reads and compiles the files, once a process."""
    return PageFiles(evaluator)
