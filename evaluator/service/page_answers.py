"""Builds what the answers of all pages have in common: headers, errors as pages, the fields of forms."""

from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import ParamSpec
from urllib.parse import parse_qsl

from fastapi import Request, Response
from starlette.datastructures import ImmutableMultiDict

from evaluator.errors import EvaluationError, WrongOption
from evaluator.service.job_state import RUN_NAME
from evaluator.service.jobs import Jobs
from evaluator.service.message_paths import MessagePaths
from evaluator.service.service_pages import ServicePages
from services.chassis.errors import BadInput, NotFound, ProblemError
from services.chassis.page_headers import PAGE_HEADERS

AGAIN_S = 2  # seconds after which a page that waits for a result loads itself again
WAITING = {"refresh": str(AGAIN_S)}
MOST_FIELDS = 256  # of a form: 16 runs of nine pipelines, and what is asked of them
FormFields = ImmutableMultiDict[str, str]
P = ParamSpec("P")


class PageAnswers:
    """Turns errors into pages. `paths` shortens those in messages."""

    def __init__(self, pages: ServicePages, paths: MessagePaths) -> None:
        self._pages = pages
        self.paths = paths

    def as_page(self, route: Callable[P, Awaitable[Response]]) -> Callable[P, Awaitable[Response]]:
        """Wraps a route: its errors are pages."""

        @wraps(route)
        async def answered(*given: P.args, **named: P.kwargs) -> Response:
            try:
                return await route(*given, **named)
            except ProblemError as error:
                page = self._pages.problem(error.status, error.title, error.detail)
                # The page of a form is not loaded again: what was filled in would be lost.
                return html_answer(page, error.status, _again(error, by_itself="request" not in named))
            except WrongOption as error:
                return html_answer(self._pages.problem(422, "This is not possible", self.sentence(error)), 422)
            except EvaluationError as error:
                return html_answer(self._pages.problem(409, "This cannot be shown", self.sentence(error)), 409)
            except OSError as error:
                page = self._pages.problem(503, "A file cannot be read or written", self.sentence(error))
                return html_answer(page, 503)

        return answered

    def sentence(self, error: EvaluationError | OSError) -> str:
        """Returns the sentence of a page about an error."""
        if isinstance(error, OSError):
            message = f"{error.filename}: {error.strerror}. Free the disk or mend the folder, then try again."
            return self.paths.shortened(message)
        return f"{self.paths.shortened(error)}."


async def form_fields(request: Request) -> FormFields:
    """Reads the fields of a form. Raises BadInput."""
    try:
        text = (await request.body()).decode()
        return FormFields(parse_qsl(text, max_num_fields=MOST_FIELDS, keep_blank_values=True))
    except ValueError as error:
        raise BadInput("The form cannot be read; load its page again and fill it in.") from error


def known_run(jobs: Jobs, run: str) -> str:
    """Returns the id of a run that is here. Raises NotFound: no file is read by a name that a caller chose."""
    if not RUN_NAME.fullmatch(run) or jobs.state(run) is None:
        raise NotFound(f"No run {run} here; the list of runs has all.")
    return run


def page_number(text: str, most_digits: int = 6) -> int:
    """Reads a number of a query string. Raises BadInput."""
    if not text.isascii() or not text.isdecimal() or len(text) > most_digits:
        raise BadInput(f"{text[:20]} is no page or number.")
    return int(text)


def html_answer(html: str, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns a page with the headers of all pages. What UTF-8 cannot encode, as of names of files, becomes `?`."""
    return Response(
        html.encode(errors="replace"), status, PAGE_HEADERS | dict(headers or {}), media_type="text/html; charset=utf-8"
    )


def _again(error: ProblemError, by_itself: bool) -> Mapping[str, str]:
    """Returns the headers that state when a page that is refused for now may be loaded again, or that load it."""
    if error.retry_after_s is None:
        return {}
    seconds = str(error.retry_after_s)
    return {"retry-after": seconds} | ({"refresh": seconds} if by_itself else {})


def see_other(path: str) -> Response:
    """Sends the reader on to a page, so that loading it again does not send the form again."""
    return Response(status_code=303, headers=PAGE_HEADERS | {"location": path})
