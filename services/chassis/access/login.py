"""Owns the page on which a browser logs in by an API key, where callers need one. The key is not kept."""

import re
from dataclasses import replace
from html import escape
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from services.access.key_ring import KeyRing
from services.chassis.access.access_check import Access
from services.chassis.access.form_tokens import FIELD, FormReader, FormTokens, FromReader, set_form_cookie
from services.chassis.access.page_headers import LOGIN, PAGE_HEADERS
from services.chassis.access.sessions import LASTS_S, Sessions
from services.chassis.errors import OverShare, Unauthenticated
from services.chassis.requests.handling import handled
from services.chassis.requests.json_route import JsonRoute

_LOCAL = re.compile(r"/(?![/\\])[!-\[\]-~]{0,2000}")  # a path of this process: no other host, no backslash
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Log in – {service}</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
<main id="main">
<h1>Log in to the {service}</h1>
{problem}
<form method="post" action="/login" autocomplete="off">
<input type="hidden" name="token" value="{token}">
<input type="hidden" name="next" value="{next}">
<p><label for="key">API key</label>
<input type="password" id="key" name="key" required autofocus></p>
<p><button>Log in</button></p>
</form>
{leave}
</main>
</body>
</html>
"""
_LEAVE = """<form method="post" action="/logout">
<input type="hidden" name="token" value="{token}">
<p>You are logged in by the key {key}. <button>Log out</button></p>
</form>"""
# The form of the login is of no session: it begins one. And a browser that comes from a link of another site loads it
# without its cookie of a session, which is SameSite=Strict, and sends it with that cookie.
_NO_SESSION = ""


def login_target(path: str, query: str) -> str:
    """Returns the address of the login page that leads back to a page."""
    return f"{LOGIN}?{urlencode({'next': path + (f'?{query}' if query else '')})}"


def login_router(service: str, style: str, access: Access, ring: KeyRing, sessions: Sessions) -> APIRouter:
    """Returns the routes of the login. `style` is the address of the page's style sheet, `ring` that of `access`."""
    routes, tokens = APIRouter(route_class=JsonRoute), FormTokens()

    def page(request: Request, reader: FormReader, goes_on: str, problem: str = "", status: int = 200) -> Response:
        nonce = tokens.nonce(reader)
        known, token = _known(request), tokens.token(nonce, reader.session)
        answer = HTMLResponse(
            _PAGE.format(
                service=escape(service),
                style=escape(style),
                token=tokens.token(nonce, _NO_SESSION),
                next=escape(goes_on),
                problem=f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else "",
                leave="" if known is None else _LEAVE.format(token=token, key=escape(known)),
            ),
            status,
            PAGE_HEADERS,
        )
        set_form_cookie(answer, nonce, reader)
        return answer

    def _known(request: Request) -> str | None:
        identity = sessions.key_id(request.headers.get("cookie", ""))
        principal = None if identity is None else ring.by_id(identity)
        return None if principal is None or principal.key is None else f"{principal.key.name} ({principal.id})"

    @routes.get(LOGIN, include_in_schema=False)
    @handled("control", scope="open", page=True)
    async def form(request: Request, reader: FromReader, next: str = "/") -> Response:
        return page(request, reader, _local(next))

    @routes.post(LOGIN, include_in_schema=False)
    @handled("control", scope="open", form=True, page=True)
    async def log_in(request: Request, reader: FromReader) -> Response:
        fields = await _fields(request)
        goes_on = _local(fields.get("next", "/"))
        if not tokens.holds(replace(reader, session=_NO_SESSION), fields.get(FIELD, "")):
            return page(request, reader, goes_on, "This form is of no page of this service: send it again.", 403)
        try:
            found = access.owner(request.scope, fields.get("key", "").strip())
        except (Unauthenticated, OverShare) as error:
            refused = page(request, reader, goes_on, error.detail, error.status)
            if error.retry_after_s is not None:
                refused.headers["retry-after"] = str(error.retry_after_s)
            return refused
        sessions.end(request.headers.get("cookie", ""))  # its browser forgets it now, and nobody could end it
        answer = RedirectResponse(goes_on, 303, PAGE_HEADERS)
        answer.set_cookie(
            sessions.cookie,
            sessions.begin(found.id),
            max_age=LASTS_S,
            httponly=True,
            samesite="strict",
            secure=reader.encrypted,
        )
        return answer

    @routes.post("/logout", include_in_schema=False)
    @handled("control", scope="open", form=True, page=True)
    async def log_out(request: Request, reader: FromReader) -> Response:
        fields = await _fields(request)
        if not tokens.holds(reader, fields.get(FIELD, "")):
            return page(request, reader, "/", "This form is of no page of this service: send it again.", 403)
        sessions.end(request.headers.get("cookie", ""))
        answer = RedirectResponse(LOGIN, 303, PAGE_HEADERS)
        answer.delete_cookie(sessions.cookie, httponly=True, samesite="strict")
        return answer

    return routes


async def _fields(request: Request) -> dict[str, str]:
    """Reads a form; one that cannot be read has no fields."""
    try:
        return dict(parse_qsl((await request.body()).decode(), max_num_fields=16))
    except ValueError:
        return {}


def _local(target: str) -> str:
    """Returns where to go on after the login: nowhere but here."""
    return target if _LOCAL.fullmatch(target) else "/"
