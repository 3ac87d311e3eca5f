"""Checks addresses of servers: which are of this machine, and where a secret may travel unencrypted."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr


def is_loopback(host: str) -> bool:
    """Returns whether a host name or address is this machine's own and reached from nowhere else."""
    if host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def may_carry_secret(url: str, trusted: Collection[str] = ()) -> bool:
    """Returns whether a secret may be sent to a URL: over TLS, or to loopback or a host of `trusted`."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "https" or is_loopback(host) or host in {name.strip("[]").lower() for name in trusted}


_WRITE = "write scheme, host and port, as in http://127.0.0.1:8000"


def server_address(url: str) -> str:
    """Returns the address of a server: scheme in lower case, host, perhaps port and path, no slash at the end.

    Raises ValueError, which states what to write and repeats neither password nor query, for every other text.
    """
    if "@" in url.rpartition("://")[2].partition("/")[0]:
        raise ValueError("it holds a user name or a password: leave them out; keys have settings of their own")
    if not url.isprintable() or " " in url:  # urlsplit removes some of them
        raise ValueError(f"it holds white space or control characters: {_WRITE}")
    if "?" in url or "#" in url:
        raise ValueError(f"it has a query or a fragment, and an address takes none: {_WRITE}")
    if "://" not in url:
        written = server_address(f"http://{url.lstrip('/')}")
        raise ValueError(f"it has no scheme: write {written}, or https:// before a server that speaks TLS")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError(f"its host or its port is invalid; ports are 1 to 65535: {_WRITE}") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"its scheme is neither http:// nor https://: {_WRITE}")
    if not _is_host(host):
        raise ValueError(f"{f'{host} is not a host name' if host else 'it names no host'}: {_WRITE}")
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError(f"its port is invalid; ports are 1 to 65535: {_WRITE}")
    if "//" in parts.path:
        raise ValueError(f"its path has an empty part: {_WRITE}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.IGNORECASE)


def _is_host(text: str) -> bool:
    """Returns whether a text may be a host: an address, or a name whose last part is not a number."""
    with suppress(ValueError):
        return bool(ip_address(text))
    try:
        labels = text.removesuffix(".").encode("idna").decode().split(".")
    except UnicodeError:
        return False
    return all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()


Address = Annotated[str, AfterValidator(server_address)]


def refuse_unencrypted(variable: str, url: str, keys: Mapping[str, SecretStr | None]) -> None:
    """Raises ValueError if one of the keys would be sent to a URL unencrypted, with its variable and the host.

    `variable` is that of the URL; `keys` are by their variables.
    """
    for name, key in keys.items():
        if key is not None and not may_carry_secret(url):
            raise ValueError(
                f"{name} would travel unencrypted to {urlsplit(url).hostname}: write https:// in {variable}; a key is "
                "sent over http:// to this machine only"
            )


def plain_refusal(secret: str, url: str, variable: str) -> str:
    """Returns the sentence that refuses to send a secret to a URL; `variable` names the hosts that are trusted."""
    host = urlsplit(url).hostname
    return (
        f"{secret} would travel unencrypted to {host}: use https://, or name that host in {variable}, as in "
        f"{variable}='[\"{host}\"]'"
    )
