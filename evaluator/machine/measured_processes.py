"""Finds the processes behind a gateway of this machine, so that their CPU time does not count as foreign.

The command that starts a stack records its supervisor, and the servers that it uses on this machine, in the folder of
runs. With a gateway on another machine, all CPU time here is foreign but the evaluator's own. The processes of an
unrecorded gateway here, or of one in a container beside the evaluator's, are unknown: no CPU time counts as foreign.
"""

import socket
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from services.contracts.base import Count, Wire
from services.files.disk_writes import write_whole
from services.files.regular_file import read_regular

STACKS = ".stacks"
PROC = Path("/proc")
# A container has addresses of its own: another address may be another container of this machine.
CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"), Path("/var/run/secrets/kubernetes.io"))


class StackRecord(Wire):
    """`<runs>/.stacks/<host>-<port>.json`: the supervisor of the services behind a gateway."""

    supervisor: Count  # its process id; the services are its descendants
    started: Count  # when, in clock ticks since boot: after its end another process may get the id
    outside: tuple[tuple[Count, Count], ...] = ()  # the same of engines and backends here that it did not start


def record_stack(runs: Path, gateway: str, supervisor: int, outside: Sequence[int] = ()) -> None:
    """Records the supervisor of a running stack. Does nothing where the system does not list processes.

    `outside`: ids of processes of this machine that the stack uses and did not start.
    """
    begun = [(process, ticks) for process in (supervisor, *outside) if (ticks := _started(process)) is not None]
    if len(begun) == 1 + len(outside):
        file = _file(runs, gateway)
        file.parent.mkdir(parents=True, exist_ok=True)
        record = StackRecord(supervisor=supervisor, started=begun[0][1], outside=tuple(begun[1:]))
        write_whole(file, record.model_dump_json() + "\n")


def measured_processes(
    runs: Path, gateway: str, container_marks: Sequence[Path] = CONTAINER_MARKS
) -> tuple[int, ...] | None:
    """Returns the processes of this machine whose descendants answer for a gateway; () where it is on another machine.

    None: they are not recorded, or one of them has ended.
    """
    try:
        record = StackRecord.from_record(read_regular(_file(runs, gateway)))
    except (OSError, ValidationError):
        elsewhere = _is_local(_host(gateway)) is False and not any(mark.exists() for mark in container_marks)
        return () if elsewhere else None
    recorded = ((record.supervisor, record.started), *record.outside)
    alive = all(_started(process) == ticks for process, ticks in recorded)
    return tuple(process for process, _ in recorded) if alive else None


def is_this_machine(url: str) -> bool:
    """Returns whether a URL's host is an address of this machine, or a name of one."""
    return _is_local(_host(url)) is True


def is_same_server(first: str, second: str) -> bool:
    """Returns whether two URLs lead to one port of one address, as `localhost` and `127.0.0.1` do."""
    return bool(_addresses(first) & _addresses(second))


def _addresses(url: str) -> set[object]:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        return {address[:2] for *_, address in socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return {(parts.hostname, port)}


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


@cache
def _is_local(host: str) -> bool | None:
    """Returns whether a host has an address to which a socket of this machine can be bound; None: no known name."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return None
    return any(_can_bind(family, address) for family, *_, address in addresses)


def _can_bind(family: int, address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(address)
    except OSError:
        return False
    return True


def _file(runs: Path, gateway: str) -> Path:
    host = "127.0.0.1" if is_this_machine(gateway) else _host(gateway)
    return runs / STACKS / f"{host}-{urlsplit(gateway).port}.json"


def _started(process: int) -> int | None:
    try:
        # After the command in parentheses: the 22nd field of proc(5).
        return int((PROC / str(process) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except OSError:
        return None
