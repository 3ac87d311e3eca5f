"""Ports on this machine: the documented ones, those of a further stack, free ones; and the address to ask."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path

from deploy.local.problem import StackProblem

HOST = "127.0.0.1"
DEFAULT_PORTS = {"gateway": 8000, "lexical": 8001, "dense": 8002, "reranker": 8003, "evaluator": 8009}
# A further stack stands this much, or a multiple of it, above the documented ports: 8010, 8011, 8012, 8013, 8019.
STEP, LAST_STEP = 10, 100
RECORD = "ports.json"


class Reserved:
    """Holds the free ports that it gave out until all are chosen, so that no two are the same."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> "Reserved":
        return self

    def __exit__(self, *_: object) -> None:
        for held in self._sockets:
            held.close()

    def free(self) -> int:
        """A port on which nothing listens."""
        held = socket.socket()
        held.bind((HOST, 0))
        self._sockets.append(held)
        return int(held.getsockname()[1])


def block_of(directory: Path) -> Mapping[str, int]:
    """The ports of a further stack: those it had before, else the first block that is free and no other stack's."""
    before = _recorded(directory)
    if before:
        return DEFAULT_PORTS | before
    others = {port for file in directory.parent.glob(f"*/{RECORD}") for port in _recorded(file.parent).values()}
    for step in range(1, LAST_STEP):
        block = {process: port + STEP * step for process, port in DEFAULT_PORTS.items()}
        if not any(port in others or taken(port) for port in block.values()):
            return block
    raise StackProblem("No block of free ports was found for another stack: set GATEWAY_PORT and the other *_PORT.")


def remember(directory: Path, ports: Mapping[str, int]) -> None:
    """Leaves the ports of a stack for the next time that it starts."""
    own = {process: port for process, port in ports.items() if process in DEFAULT_PORTS}
    (directory / RECORD).write_text(json.dumps(own), encoding="utf-8")


def _recorded(directory: Path) -> dict[str, int]:
    try:
        found = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        return {process: int(port) for process, port in found.items() if process in DEFAULT_PORTS}
    except (OSError, ValueError, AttributeError):
        return {}


def host_of(environment: Mapping[str, str], process: str) -> str:
    """The address at which a process of this machine is asked: that of its *_HOST, unless it listens on all."""
    host = environment.get(f"{process.upper()}_HOST") or HOST
    if host in ("0.0.0.0", "::", "localhost"):
        return HOST
    return f"[{host}]" if ":" in host else host


def taken(port: int) -> bool:
    """Whether something already listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
