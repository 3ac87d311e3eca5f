"""Owns the secure mode of the tests: TLS, keys and the token of every process that they start, and of their clients.

`make test-integration SECURE=1` turns it on by the variable TESTS_SECURE, which is read here alone. A port that
`protect` names speaks TLS and wants a secret; to every other one the functions here say what plain HTTP needs. Leaves
the settings of tests about access itself to those tests: `turned_off` is for them.
"""

import http.client
import os
import shlex
import shutil
import socket
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from services.keys.key import KEY_SCOPES
from tests.support.certificates import Certificates, Pair
from tests.support.keys import TOKEN, Keys, bearing

VARIABLE = "TESTS_SECURE"
KEYED = ("GATEWAY", "DENSE", "RERANKER", "EVALUATOR")
# Callers from outside use a key; what our own processes call in between takes their token alone.
OPENED_BY_KEY = ("GATEWAY", "EVALUATOR")


@dataclass(frozen=True)
class SecureMode:
    """An authority, a certificate for this machine, a key of all scopes and the token; and who listens with them."""

    certificates: Certificates
    pair: Pair
    keys: Keys
    trusts: ssl.SSLContext  # of its callers
    secrets: dict[int, str] = field(default_factory=dict)  # of protected ports

    @property
    def key(self) -> str:
        """The secret of the key of all scopes."""
        return self.keys.secrets["tests"]

    @property
    def caller_variables(self) -> dict[str, str]:
        """The environment of callers of a gateway: the evaluator's commands and load generators."""
        return {"STACK_CA_FILE": str(self.certificates.ca_file), "GATEWAY_API_KEY": self.key}


_mode: SecureMode | None = None


@contextmanager
def chosen_mode() -> Iterator[None]:
    """Turns the secure mode on while it is open if TESTS_SECURE is 1. Raises ValueError for another value but 0."""
    chosen = os.environ.get(VARIABLE) or "0"
    if chosen not in ("0", "1"):
        raise ValueError(f"{VARIABLE}={chosen} is none of the choices: take 1, or leave it out.")
    if chosen == "0":
        yield
        return
    with turned_on():
        yield


@contextmanager
def turned_on() -> Iterator[SecureMode]:
    """Turns the secure mode on while it is open."""
    with tempfile.TemporaryDirectory(prefix="tests-secure-") as name:
        certificates, keys = Certificates(Path(name)), Keys(Path(name) / "keys.json", {})
        keys.add("tests", *KEY_SCOPES)
        mode = SecureMode(certificates, certificates.issue(), keys, certificates.context)
        with _taken(mode):
            yield mode


@contextmanager
def turned_off() -> Iterator[None]:
    """Turns the secure mode off while it is open, for what sets certificates and keys by itself."""
    with _taken(None):
        yield


@contextmanager
def _taken(mode: SecureMode | None) -> Iterator[None]:
    global _mode
    before, _mode = _mode, mode
    wanted: Mapping[str, str] = {} if mode is None else mode.caller_variables
    gone: Mapping[str, str] = {} if before is None else before.caller_variables
    kept = {name: os.environ.get(name) for name in (*wanted, *gone)}
    _set_environment({name: wanted.get(name) for name in kept})
    try:
        yield
    finally:
        _mode = before
        _set_environment(kept)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def mode() -> SecureMode | None:
    """Returns the secure mode, None in plain mode."""
    return _mode


def scheme() -> str:
    """Returns the scheme of the URLs of what tests start."""
    return "http" if _mode is None else "https"


def variables(process: str, given: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of a process (`GATEWAY`, `LEXICAL`, …) that it is not given; none in plain mode."""
    if _mode is None:
        return {}
    found = {"STACK_CA_FILE": str(_mode.certificates.ca_file), "STACK_TOKEN": TOKEN, **_mode.pair.variables(process)}
    if process in KEYED:
        found[f"{process}_KEYS_FILE"] = str(_mode.keys.file)
    return {name: value for name, value in found.items() if not {name, f"{name}_FILE"} & given.keys()}


def write_stack_files(directory: Path) -> None:
    """Puts the authority and the token where `make up SECURE=1` keeps its own. Does nothing in plain mode."""
    if _mode is None:
        return
    directory.mkdir(parents=True, mode=0o700)
    authority = _mode.certificates.authority
    shutil.copy2(authority.cert, directory / "ca.pem")
    shutil.copy2(authority.key, directory / "ca.key")
    (directory / "token").write_text(f"{TOKEN}\n", encoding="utf-8")


def of_a_stack(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment of `make up` as that of a secure stack with our key; as it is in plain mode."""
    if _mode is None:
        return dict(environment)
    # `make up SECURE=1` names the authority by itself.
    without = {name: value for name, value in environment.items() if name != "STACK_CA_FILE"}
    return without | {"SECURE": "1", "GATEWAY_KEYS_FILE": str(_mode.keys.file)}


def protect(port: int, process: str) -> None:
    """Notes that a process listens on a port with what `variables` gave it. Does nothing in plain mode."""
    if _mode is not None:
        _mode.secrets[port] = _mode.key if process in OPENED_BY_KEY else TOKEN


def client_context(port: int) -> ssl.SSLContext | None:
    """Returns how a caller checks who listens on a port; None for plain HTTP."""
    return None if _mode is None or port not in _mode.secrets else _mode.trusts


def server_context() -> ssl.SSLContext | None:
    """Returns the context of a listener of the tests themselves; None in plain mode."""
    if _mode is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_mode.pair.cert, _mode.pair.key)
    return context


def headers(port: int) -> dict[str, str]:
    """Returns the headers that open a port."""
    return bearing(None if _mode is None else _mode.secrets.get(port))


def authorized(port: int, request: bytes) -> bytes:
    """Adds the header that opens a port after the first line of a request; leaves what has no line of HTTP/1."""
    line, end, rest = request.partition(b"\r\n")
    if not end or not line.endswith((b" HTTP/1.1", b" HTTP/1.0")):
        return request
    added = b"".join(f"{name}: {value}\r\n".encode() for name, value in headers(port).items())
    return line + end + added + rest


def http_connection(port: int, timeout_s: float) -> http.client.HTTPConnection:
    """Returns a connection, not opened yet, to a port of this machine."""
    context = client_context(port)
    if context is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=context)


def authority_of(port: int) -> Path | None:
    """Returns the authority that vouches for who listens on a port; None for plain HTTP."""
    return None if _mode is None or port not in _mode.secrets else _mode.certificates.ca_file


def curl_options(port: int) -> str:
    """Returns the options of curl for a port of this machine, as a shell takes them."""
    told = [word for name, value in headers(port).items() for word in ("-H", f"{name}: {value}")]
    return shlex.join((["--cacert", str(authority)] if (authority := authority_of(port)) else []) + told)


def connected(port: int, timeout_s: float, trusts: ssl.SSLContext | None) -> socket.socket:
    """Connects to a port of this machine; `trusts` is what `client_context` says of it. Raises OSError."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
    if trusts is None:
        return plain
    try:
        return trusts.wrap_socket(plain, server_hostname="127.0.0.1")
    except BaseException:
        plain.close()
        raise
