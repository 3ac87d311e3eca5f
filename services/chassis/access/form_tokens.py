"""Owns the tokens that distinguish a form of our own pages from one that another site sends in a reader's name.

A page with a form sets a random cookie (SameSite=Strict) and holds an HMAC of it and of the reader's session; another
site can do neither, and another reader's token is of another session. The headers
by which browsers name a form's origin are read too.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response

from services.chassis.access.sessions import Sessions

COOKIE = "form_nonce"
FIELD = "token"
_NONCE = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class FormReader:
    """A browser that loads or sends a form: its cookie of forms, that of its session ("": none), whether over TLS."""

    nonce: str | None
    session: str
    encrypted: bool


async def form_reader(request: Request) -> FormReader:
    """Returns the browser of a request."""
    sessions: Sessions = request.app.state.sessions
    session = sessions.value(request.headers.get("cookie", ""))
    encrypted = request.url.scheme == "https"  # its cookies are then to travel over TLS alone
    return FormReader(request.cookies.get(COOKIE), session or "", encrypted)


# The parameter of a route with a form.
FromReader = Annotated[FormReader, Depends(form_reader)]


class FormTokens:
    """Makes and checks tokens. Their key is the process's own: after a restart, an open form must be loaded again."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def nonce(self, reader: FormReader) -> str:
        """Returns the value of the cookie to set: the one that the reader has, if it is one of ours."""
        kept = reader.nonce
        return kept if kept is not None and _NONCE.fullmatch(kept) else secrets.token_hex(16)

    def token(self, nonce: str, session: str) -> str:
        """Returns the token of a form that is sent with these cookies. A nonce has 32 characters."""
        return hmac.new(self._key, f"{nonce}{session}".encode(), hashlib.sha256).hexdigest()

    def holds(self, reader: FormReader, token: str) -> bool:
        """Returns whether a form comes from a page that this process has made for this reader in this session."""
        if reader.nonce is None or not _NONCE.fullmatch(reader.nonce):
            return False
        return hmac.compare_digest(self.token(reader.nonce, reader.session).encode(), token.encode())


def set_form_cookie(answer: Response, nonce: str, reader: FormReader) -> None:
    """Sets the cookie of forms on the answer that shows one."""
    answer.set_cookie(COOKIE, nonce, httponly=True, samesite="strict", secure=reader.encrypted)


def comes_from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Returns whether a browser reports that a page of another origin has sent this. Other clients report nothing.

    Browsers send Sec-Fetch-Site over TLS and to this machine alone, and Origin in any case. A proxy may change Host:
    therefore Origin counts only where Sec-Fetch-Site is missing.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")  # none: typed, or sent again by the reader
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()
