"""Lets only those requests pass that access.py admits, and holds each key to its share in flight."""

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from services.chassis.access.access_check import Access
from services.chassis.access.login import login_target
from services.chassis.access.page_headers import PAGE_HEADERS
from services.chassis.errors import OverShare, Unauthenticated


class AccessMiddleware:
    """Outside everything that reads, limits or works. A browser that asks for a page is sent to log in."""

    def __init__(self, app: ASGIApp, *, access: Access, logs_in: bool) -> None:
        self.app = app
        self._access = access
        self._logs_in = logs_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            principal = self._access.check(scope)
        except Unauthenticated as error:
            shows_page = scope["method"] in ("GET", "HEAD") and self._access.handling(scope).page
            if error.wrong or not (self._logs_in and shows_page):
                raise
            target = login_target(scope["path"], scope["query_string"].decode("latin-1"))
            await RedirectResponse(target, 303, PAGE_HEADERS)(scope, receive, send)
            return
        if principal is None:
            await self.app(scope, receive, send)
            return
        if not principal.share.enter():
            raise OverShare("This key has too many requests in flight; wait for their answers.", retry_after_s=1)
        try:
            await self.app(scope, receive, send)
        finally:
            principal.share.leave()
