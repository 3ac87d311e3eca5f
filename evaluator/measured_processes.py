"""Knows which processes stand behind a gateway of this machine, so that their CPU time does not count as foreign.

Whoever starts a stack records its supervisor in the folder of runs; every measurement looks there. Of a gateway that
nobody recorded (containers, another machine) nothing is known, and no CPU time is called foreign.
"""

from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from services.contracts.base import Count, Wire

STACKS = ".stacks"
PROC = Path("/proc")


class StackRecord(Wire):
    """`<runs>/.stacks/<host>-<port>.json`: the supervisor of the services behind a gateway."""

    supervisor: Count  # its process id; the services are its descendants
    started: Count  # when, in clock ticks since boot: after its end another process may get the id


def record_stack(runs: Path, gateway: str, supervisor: int) -> None:
    """Records the supervisor of a running stack. Does nothing where the system does not tell of processes."""
    started = _started(supervisor)
    if started is not None:
        file = _file(runs, gateway)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(StackRecord(supervisor=supervisor, started=started).model_dump_json() + "\n", encoding="utf-8")


def measured_processes(runs: Path, gateway: str) -> tuple[int, ...] | None:
    """Returns the processes whose descendants answer for a gateway; None: nobody recorded them, or they have ended."""
    try:
        record = StackRecord.model_validate_json(_file(runs, gateway).read_bytes())
    except (OSError, ValidationError):
        return None
    return (record.supervisor,) if _started(record.supervisor) == record.started else None


def is_this_machine(url: str) -> bool:
    """Returns whether a URL's host is a loopback address."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name
        return False


def _file(runs: Path, gateway: str) -> Path:
    parts = urlsplit(gateway)
    host = "127.0.0.1" if parts.hostname in ("localhost", "::1") else parts.hostname
    return runs / STACKS / f"{host}-{parts.port}.json"


def _started(process: int) -> int | None:
    try:
        # After the command in parentheses: the 22nd field of proc(5).
        return int((PROC / str(process) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except OSError:
        return None
