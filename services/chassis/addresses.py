"""Tells hosts of this machine from others, and where a secret may travel unencrypted."""

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from pydantic import SecretStr


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
    return parts.scheme == "https" or is_loopback(host) or host in {one.strip("[]").lower() for one in trusted}


def without_credentials(url: str) -> str:
    """Returns a URL. Raises ValueError, which does not repeat it, if it holds a user name or a password."""
    if "@" in urlsplit(url).netloc:
        raise ValueError("it holds a user name or a password: leave them out; keys have settings of their own")
    return url


def refuse_unencrypted(variable: str, url: str, keys: Mapping[str, SecretStr | None]) -> None:
    """Raises ValueError if one of the keys would be sent to a URL unencrypted, with its variable and the host.

    `variable` is that of the URL; `keys` are by their variables.
    """
    for name, key in keys.items():
        if key is not None and not may_carry_secret(url):
            raise ValueError(
                f"{name} would travel unencrypted to {urlsplit(url).hostname}: say https:// in {variable}; a key is "
                "sent over http:// to this machine alone"
            )


def plain_refusal(secret: str, url: str, variable: str) -> str:
    """Returns the sentence that refuses to send a secret to a URL; `variable` names the hosts that are trusted."""
    host = urlsplit(url).hostname
    return (
        f"{secret} would travel unencrypted to {host}: use https://, or name that host in {variable}, as in "
        f"{variable}='[\"{host}\"]'"
    )
