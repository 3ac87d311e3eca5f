"""Decides by Host, caller and scope of the route whether a request is served. Sends no answer itself.

Keeps the caller in the scope of its request, and writes a line for each call of a known caller that changes something.
"""

import base64
import ipaddress
import logging
import math
import re
from collections.abc import Mapping
from functools import lru_cache

from starlette.types import Scope

from services.chassis.errors import Forbidden, ForeignForm, OverShare, ProblemError, Unauthenticated, WrongHost
from services.chassis.instruments import Instruments
from services.chassis.requests.handling import Handling, HandlingTable, matched_route
from services.chassis.requests.telemetry import PROBES, WRONG_KEY, headers_of
from services.chassis.settings.addresses import is_loopback
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.service_settings import KeyedSettings, ServiceSettings
from services.keys.key_file import KeyFileError
from services.keys.key_ring import KeyRing, Principal, Refusal

logger = logging.getLogger(__name__)
audit_logger = logging.getLogger("audit")
audit_logger.setLevel(logging.INFO)  # whatever else is logged

# In it the gateway names the client of a request that it forwards. Read only on routes of the scope `internal`.
CLIENT_HEADER = "x-client"
AUDITED = ("index", "admin")
# Keys of the scope: the outcome of the check, who calls, and the run that a call has begun.
_REFUSAL, _CALLER, _RUN = "refusal_of_caller", "caller", "audited_run"
_COLLECTION = re.compile(r"/v1/collections/([^/]+)")
# Only the parts of a path that can be names are written: callers choose the rest.
_COLLECTION_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}(/[a-z0-9_-]{1,64})?")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", re.IGNORECASE)
_SEND_KEY = "Send a key: Authorization: Bearer <key>."
_SEND_KEY_OF_PAGE = "Load this page again and give any user name, and a key as the password."
_WRONG: Mapping[Refusal, str] = {
    "unknown": "This key is not known here; ask who runs this service for one.",
    "expired": "This key has expired; ask who runs this service for a new one.",
    "revoked": "This key was revoked; ask who runs this service for a new one.",
}


class CallerCheck:
    """Owns the keys of a process and its host names. Without a `ring`, callers need no key."""

    def __init__(
        self,
        handling: HandlingTable,
        instruments: Instruments,
        ring: KeyRing | None = None,
        hosts: tuple[str, ...] = (),
    ) -> None:
        self._handling = handling
        self._denied = instruments.denied
        self.ring = ring
        self._hosts = frozenset(hosts)

    def refusal(self, scope: Scope) -> ProblemError | None:
        """Returns why a request is not served; None if it is, and `caller_of` then returns its caller.

        Checks each request once, before its body is read: in the server once the headers are read, else in the app.
        """
        if _REFUSAL not in scope:
            scope[_REFUSAL] = None
            try:
                self._check(scope)
            except ProblemError as error:
                self._denied.labels(error.kind).inc()
                scope[_REFUSAL] = error.with_traceback(None)  # its frames hold the scope
        refusal: ProblemError | None = scope[_REFUSAL]
        return refusal

    def handling(self, scope: Scope) -> Handling:
        return self._handling.of_request(scope)

    def _check(self, scope: Scope) -> None:
        headers, handling = headers_of(scope), self.handling(scope)
        if scope["path"] in PROBES:  # a balancer sends any Host
            return
        self._check_host(headers.get("host", ""))
        if handling.form and is_foreign_form(headers):  # where callers need no key, too
            raise ForeignForm("Another site has sent this form; open its page here and send it from there.")
        if self.ring is None or handling.scope == "open":
            return
        caller = _caller(scope, self.ring, headers.get("authorization", ""), is_page=handling.page)
        scope[_CALLER] = caller
        # Before the scope: a refusal for it counts too, as it costs as much as an answer.
        if wait_s := caller.share.wait_s():
            raise OverShare("This key asks too often; ask at its rate.", retry_after_s=math.ceil(wait_s))
        _check_scope(caller, handling, scope["path"])

    def _check_host(self, host: str) -> None:
        """Raises WrongHost for a foreign domain: a page whose domain points here (DNS rebinding) sends its own."""
        if not host:
            return  # every browser sends it
        name = _named(host)
        if not name or not (name in self._hosts or "." not in name.rstrip(".") or _is_address(name)):
            raise WrongHost("The header Host names another host; if it is this one's name, put it into …_HOSTS.")


def open_caller_check(settings: ServiceSettings, handling: HandlingTable, instruments: Instruments) -> CallerCheck:
    """Reads the keys that settings name. Raises ConfigurationError if they cannot be used."""
    if not settings.authenticates:
        if not is_loopback(settings.host):
            logger.warning("callers need no key, and others can reach this address", extra={"host": settings.host})
        return CallerCheck(handling, instruments, hosts=settings.hosts)
    file = settings.keys_file if isinstance(settings, KeyedSettings) else None
    try:
        ring = KeyRing(file, settings.accepted_tokens)
    except KeyFileError as error:
        raise ConfigurationError(str(error)) from error
    return CallerCheck(handling, instruments, ring, settings.hosts)


def bearer(header: str) -> str | None:
    """Returns the secret of `Authorization: Bearer`, None without one. The scheme's case does not matter (RFC 7235)."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and secret.strip() else None


def typed_key(header: str) -> str | None:
    """Returns the password of `Authorization: Basic`, whatever the user name; None without one (RFC 7617)."""
    scheme, _, credentials = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        decoded = base64.b64decode(credentials.strip(), validate=True).decode()
    except ValueError:  # no base64, or no UTF-8
        return None
    return decoded.partition(":")[2].strip() or None


def is_foreign_form(headers: Mapping[str, str]) -> bool:
    """Returns whether a browser reports that a page of another origin has sent this form.

    Browsers send Sec-Fetch-Site over TLS and to this machine alone, and Origin with every POST. A proxy may change
    Host: therefore Origin counts only where Sec-Fetch-Site is missing. A client that sends neither is no browser, and
    nothing signs it in but the header that it sends itself.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site not in ("same-origin", "none")  # none: typed, or sent again by the reader
    return origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower()


def _caller(scope: Scope, ring: KeyRing, header: str, *, is_page: bool) -> Principal:
    """Returns the caller by the key of a request, on pages also by HTTP Basic. Raises Unauthenticated."""
    sent, typed = bearer(header), typed_key(header) if is_page else None
    secret = sent or typed
    if secret is None:
        raise Unauthenticated(_SEND_KEY_OF_PAGE if is_page else _SEND_KEY, wrong=False, challenges_browser=is_page)
    caller = ring.of(secret)
    if isinstance(caller, Principal) and not (typed and caller.key is None):  # the token is for programs alone
        return caller
    scope[WRONG_KEY] = True  # lets its connection slow down
    refusal = _WRONG["unknown" if isinstance(caller, Principal) else caller]
    raise Unauthenticated(refusal, wrong=True, challenges_browser=is_page)


def _check_scope(caller: Principal, handling: Handling, path: str) -> None:
    if handling.scope == "internal":
        if caller.key is not None:
            raise Forbidden("Only our own processes may call this, by STACK_TOKEN; call the gateway.")
    elif handling.scope is not None and handling.scope != "open" and not caller.has(handling.scope):
        raise Forbidden(f"This needs a key with the scope {handling.scope}; this one lacks it.")
    if caller.is_bound:
        collection = collection_of(path)
        if collection is None:  # pages and lists would show the others
            raise Forbidden("This key is bound to collections: it opens what names one of them in its path.")
        if not caller.may_touch(collection):
            raise Forbidden("This collection is not one of this key's.")


def caller_of(scope: Scope) -> Principal | None:
    """Returns the caller; None where callers need no key, or the route is open to all."""
    caller: Principal | None = scope.get(_CALLER)
    return caller


def collection_of(path: str) -> str | None:
    """Returns the collection that a path names; of a generation, its name."""
    match = _COLLECTION.match(path)
    return None if match is None else match[1].partition("@")[0]


def note_run(scope: Scope, run: str) -> None:
    """Notes the run that a call has begun, for its line: the path does not name it."""
    scope[_RUN] = run


def write_audit(scope: Scope, handling: Handling, status: int) -> None:
    """Writes the line of a call whose route has one of the scopes AUDITED; `status` is that of its answer."""
    caller = caller_of(scope)
    if caller is None or handling.scope not in AUDITED:
        return
    route = matched_route(scope)
    audit_logger.info(
        "call",
        extra={
            "key": caller.id,
            "method": scope["method"],
            "route": None if route is None else route.route.path,
            "collection": _name(_COLLECTION_NAME, collection_of(scope["path"])),
            "run": scope.get(_RUN) or _name(_RUN_NAME, None if route is None else route.parameters.get("run")),
            "session": _name(_RUN_NAME, None if route is None else route.parameters.get("session")),
            "outcome": status,
        },
    )


def _name(form: re.Pattern[str], text: str | None) -> str | None:
    return text if text is not None and form.fullmatch(text) else None


@lru_cache(maxsize=256)  # of the same few hosts in all requests
def _named(host: str) -> str:
    """Returns the name or address in a header Host, "" where it has none."""
    match = _AUTHORITY.fullmatch(host)
    return "" if match is None else match["host"].lower()


@lru_cache(maxsize=256)
def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
