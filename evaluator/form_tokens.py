"""Owns the tokens that tell a form of our own pages from one that another site sends in a reader's name.

A page with a form sets a random cookie (SameSite=Strict) and holds an HMAC of it; another site can do neither.
"""

import hashlib
import hmac
import re
import secrets

COOKIE = "evaluator_form"
FIELD = "token"
_NONCE = re.compile(r"[0-9a-f]{32}")


class FormTokens:
    """Makes and checks tokens. Their key is the process's own: after a restart, an open form must be loaded again."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def nonce(self, cookie: str | None) -> str:
        """Returns the value of the cookie to set: the one that the reader has, if it is one of ours."""
        return cookie if cookie is not None and _NONCE.fullmatch(cookie) else secrets.token_hex(16)

    def token(self, nonce: str) -> str:
        """Returns the token of a form that is sent with this cookie."""
        return hmac.new(self._key, nonce.encode(), hashlib.sha256).hexdigest()

    def holds(self, cookie: str | None, token: str) -> bool:
        """Returns whether a form comes from a page that this process has made for this reader."""
        known = cookie is not None and _NONCE.fullmatch(cookie) is not None
        return known and hmac.compare_digest(self.token(str(cookie)).encode(), token.encode())
