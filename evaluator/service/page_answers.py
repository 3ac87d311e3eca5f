"""Builds the answers of all pages: from templates, with their headers; errors as pages; the fields of forms."""

from collections.abc import Awaitable, Callable, Sequence
from functools import wraps
from typing import ParamSpec
from urllib.parse import parse_qsl

from fastapi import Request, Response
from starlette.datastructures import ImmutableMultiDict

from evaluator.errors import EvaluationError, WrongOption
from evaluator.pages.html_page import page_environment
from evaluator.service.served_files import MessagePaths
from services.chassis.errors import BadInput, Conflict, NotFound, Unavailable
from services.chassis.page_headers import PAGE_HEADERS
from services.contracts.problem import Problem

AGAIN_S = 2  # seconds after which a page that waits for a result loads itself again
A_PAGE = 50  # of a list
MOST_FIELDS = 256  # of a form: 16 runs of nine pipelines, and what is asked of them
FormFields = ImmutableMultiDict[str, str]
P = ParamSpec("P")


class PageAnswers:
    """Renders pages from templates. `paths` shortens those in messages.

    `search_page`: where pages link to, if any; `online`: whether they link to the page of online experiments.
    """

    def __init__(self, paths: MessagePaths, search_page: str | None = None, online: bool = False) -> None:
        self._environment = page_environment()
        self._paths = paths
        self._links = {"search_page": search_page, "online": online}

    def page(self, template: str, here: str = "", *, code: int = 200, refresh: str = "", **values: object) -> Response:
        """Returns a page. `here`: its address, where the bar above every page has it; `code`: the HTTP status.

        `refresh`: the header by which a page loads itself again. What UTF-8 cannot encode, as of names of files,
        becomes `?`.
        """
        html = self._environment.get_template(template).render(here=here, **self._links, **values)
        headers = PAGE_HEADERS | ({"refresh": refresh} if refresh else {})
        return Response(html.encode(errors="replace"), code, headers, media_type="text/html; charset=utf-8")

    def waiting(self, title: str, why: str, path: str = "", words: object = ()) -> Response:
        """Returns a page that loads `path` after a moment, else itself. `words`: what it is about, shown as a list."""
        refresh = f"{AGAIN_S}; url={path}" if path else str(AGAIN_S)
        return self.page("waiting.html", refresh=refresh, title=title, why=why, words=words)

    def problem(self, problem: Problem) -> Response:
        """Returns the page of an error."""
        return self.page("problem.html", code=problem.status, problem=problem)

    def reporting(self, route: Callable[P, Awaitable[Response]]) -> Callable[P, Awaitable[Response]]:
        """Wraps a route of pages: what the evaluator raises becomes a problem with a status."""

        @wraps(route)
        async def answered(*given: P.args, **named: P.kwargs) -> Response:
            try:
                return await route(*given, **named)
            except WrongOption as error:
                raise BadInput(f"{self._paths.shortened(error)}.") from error
            except EvaluationError as error:
                raise Conflict(f"{self._paths.shortened(error)}.") from error
            except OSError as error:
                message = f"{error.filename}: {error.strerror}. Free the disk or mend the folder, then try again."
                raise Unavailable(self._paths.shortened(message)) from error

        return answered


async def form_fields(request: Request) -> FormFields:
    """Reads the fields of a form. Raises BadInput."""
    try:
        text = (await request.body()).decode()
        return FormFields(parse_qsl(text, max_num_fields=MOST_FIELDS, keep_blank_values=True))
    except ValueError as error:
        raise BadInput("The form cannot be read; load its page again and fill it in.") from error


def whole_number(text: str, most_digits: int = 6) -> int:
    """Reads a number of a query string or a form. Raises BadInput."""
    if not text.isascii() or not text.isdecimal() or len(text) > most_digits:
        raise BadInput(f"{text[:20]} is no page or number.")
    return int(text)


def one_page(names: Sequence[str], page: int) -> tuple[Sequence[str], int]:
    """Returns the names of one page of a list, and how many pages there are. Raises NotFound."""
    pages = max(1, -(-len(names) // A_PAGE))
    if not 1 <= page <= pages:
        raise NotFound(f"This list has the pages 1 to {pages}.")
    return names[(page - 1) * A_PAGE : page * A_PAGE], pages


def see_other(path: str) -> Response:
    """Sends the reader on to a page, so that loading it again does not send the form again."""
    return Response(status_code=303, headers=PAGE_HEADERS | {"location": path})
