"""Decides whether a request is served: by its Host, its caller and the scope of its route. Answers nothing itself."""

import ipaddress
import logging
import math
import re
from collections.abc import Mapping
from functools import lru_cache

from starlette.types import Scope

from services.access.key_file import KeyFileError
from services.access.key_ring import KeyRing, Principal, Refusal
from services.chassis.access.form_tokens import comes_from_elsewhere
from services.chassis.access.sessions import Sessions
from services.chassis.errors import Forbidden, ForeignForm, OverShare, ProblemError, Unauthenticated, WrongHost
from services.chassis.instruments import Instruments
from services.chassis.requests.callers import collection_of, keep_caller
from services.chassis.requests.handling import Handling, HandlingTable
from services.chassis.requests.telemetry import KEY_IN_BODY, PROBES, WRONG_KEY, headers_of
from services.chassis.settings.addresses import is_loopback
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.service_settings import KeyedSettings, ServiceSettings

logger = logging.getLogger(__name__)

# Key of the scope: the outcome of the check.
_REFUSAL = "access_refusal"
_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?", re.IGNORECASE)
_WRONG: Mapping[Refusal, str] = {
    "unknown": "This key is not known here; ask who runs this service for one.",
    "expired": "This key has expired; ask who runs this service for a new one.",
    "revoked": "This key was revoked; ask who runs this service for a new one.",
}


class Access:
    """Owns the keys of a process and what it answers to. `ring` of None: callers need no key."""

    def __init__(
        self,
        handling: HandlingTable,
        instruments: Instruments,
        sessions: Sessions,
        ring: KeyRing | None = None,
        hosts: tuple[str, ...] = (),
    ) -> None:
        self._handling = handling
        self._denied = instruments.denied
        self.ring = ring
        self._hosts = frozenset(hosts)
        self._sessions = sessions

    def refusal(self, scope: Scope) -> ProblemError | None:
        """Returns why a request is not served, None where it is; `caller_of` then returns who calls.

        Checks a request once, however often it is asked: before its body is read, by the server as soon as its headers
        are, else by the app.
        """
        if _REFUSAL not in scope:
            scope[_REFUSAL] = None
            try:
                self._check(scope)
            except ProblemError as error:
                self._denied.labels(error.kind).inc()
                scope[_REFUSAL] = error.with_traceback(None)  # its frames hold the scope
        found: ProblemError | None = scope[_REFUSAL]
        return found

    def owner(self, scope: Scope, secret: str) -> Principal:
        """Returns whose key was typed into a form, and takes one request out of its rate.

        Raises OverShare above that rate, and Unauthenticated for what is no active key or is our own processes' token:
        it counts and slows its connection as in the header Authorization.
        """
        assert self.ring is not None
        try:
            found = self._known(scope, secret)
            if found.key is None:
                raise _wrong(scope, "unknown")
            keep_caller(scope, found)
            _charge(found)
        except ProblemError as error:
            self._denied.labels(error.kind).inc()
            raise
        return found

    def handling(self, scope: Scope) -> Handling:
        """Returns the handling of a request."""
        return self._handling.of_request(scope)

    def _check(self, scope: Scope) -> None:
        headers, handling = headers_of(scope), self.handling(scope)
        if scope["path"] in PROBES:  # a balancer sends any Host
            return
        self._check_host(headers.get("host", ""))
        if handling.form and comes_from_elsewhere(headers):  # where callers need no key, too
            raise ForeignForm("Another site has sent this form; open its page here and send it from there.")
        if self.ring is None:
            return
        if handling.scope == "open":
            scope[KEY_IN_BODY] = handling.form
            return
        caller = self._caller(scope, headers, handling)
        keep_caller(scope, caller)
        _charge(caller)  # a refusal for the scope counts too: it costs as much as an answer
        _check_scope(caller, handling, scope["path"])

    def _check_host(self, host: str) -> None:
        """A page whose domain points at this machine (DNS rebinding) sends its own domain, which has a dot."""
        if not host:
            return  # no browser leaves it out
        name = _named(host)
        if not name or not (name in self._hosts or "." not in name.rstrip(".") or _is_address(name)):
            raise WrongHost("The header Host names another host; if it is this one's name, put it into …_HOSTS.")

    def _caller(self, scope: Scope, headers: Mapping[str, str], handling: Handling) -> Principal:
        assert self.ring is not None
        secret = bearer(headers.get("authorization", ""))
        if secret is None:
            principal = self._logged_in(headers) if handling.page else None
            if principal is None:
                raise Unauthenticated("Send a key: Authorization: Bearer <key>.", wrong=False)
            return principal
        return self._known(scope, secret)

    def _known(self, scope: Scope, secret: str) -> Principal:
        assert self.ring is not None
        found = self.ring.of(secret)
        if isinstance(found, Principal):
            return found
        raise _wrong(scope, found)

    def _logged_in(self, headers: Mapping[str, str]) -> Principal | None:
        """Returns who has logged in with a browser, by its cookie."""
        assert self.ring is not None
        identity = self._sessions.key_id(headers.get("cookie", ""))
        return None if identity is None else self.ring.by_id(identity)


def open_access(
    settings: ServiceSettings, handling: HandlingTable, instruments: Instruments, sessions: Sessions
) -> Access:
    """Reads the keys that settings name. Raises ConfigurationError if they cannot be used."""
    if not settings.authenticates:
        if not is_loopback(settings.host):
            logger.warning("callers need no key, and others can reach this address", extra={"host": settings.host})
        return Access(handling, instruments, sessions, hosts=settings.hosts)
    file = settings.keys_file if isinstance(settings, KeyedSettings) else None
    try:
        ring = KeyRing(file, settings.accepted_tokens)
    except KeyFileError as error:
        raise ConfigurationError(str(error)) from error
    return Access(handling, instruments, sessions, ring, settings.hosts)


def bearer(header: str) -> str | None:
    """Returns the secret of `Authorization: Bearer`, None without one. The scheme's case does not matter (RFC 7235)."""
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" and secret.strip() else None


def _wrong(scope: Scope, refusal: Refusal) -> Unauthenticated:
    """Returns the error of a wrong key, and lets its connection slow down."""
    scope[WRONG_KEY] = True
    return Unauthenticated(_WRONG[refusal], wrong=True)


def _charge(caller: Principal) -> None:
    """Takes one request out of the rate of a key. Raises OverShare if there is none left."""
    if wait_s := caller.share.wait_s():
        raise OverShare("This key asks too often; ask at its rate.", retry_after_s=math.ceil(wait_s))


def _check_scope(caller: Principal, handling: Handling, path: str) -> None:
    if handling.scope == "internal":
        if caller.key is not None:
            raise Forbidden("Only our own processes may call this, by STACK_TOKEN; call the gateway.")
    elif handling.scope is not None and handling.scope != "open" and not caller.has(handling.scope):
        raise Forbidden(f"This needs a key with the scope {handling.scope}; this one has not.")
    if caller.is_bound:
        collection = collection_of(path)
        if collection is None:  # pages and lists would show the others
            raise Forbidden("This key is bound to collections: it opens what names one of them in its path.")
        if not caller.may_touch(collection):
            raise Forbidden("This collection is not one of this key's.")


@lru_cache(maxsize=256)  # of the same few hosts in all requests
def _named(host: str) -> str:
    """Returns the name or address in a header Host, "" where it has none."""
    found = _AUTHORITY.fullmatch(host)
    return "" if found is None else found["host"].lower()


@lru_cache(maxsize=256)
def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
