"""Chooses ports on this machine: documented ones, a block for a further stack, free ones; and addresses to call."""

import json
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from deploy.local.problem import StackProblem
from services.files.disk_writes import write_whole

HOST = "127.0.0.1"
DEFAULT_PORTS = {
    "gateway": 8000,
    "lexical": 8001,
    "dense": 8002,
    "reranker": 8003,
    "sparse": 8004,
    "late_interaction": 8005,
    "dense_bge": 8006,
    "dense_e5": 8007,
    "evaluator": 8009,
}
# A further stack takes the documented ports plus a multiple of STEP: 8010 to 8017, 8019.
STEP, LAST_STEP = 10, 100
RECORD = "ports.json"
# Of a start on free ports: between their choice and their use any program may take one, also for a call of its own.
TRIES = 3
Started = TypeVar("Started")


class PortTaken(StackProblem):
    """Raised where a port of the stack belongs to another program."""


class ReservedPorts:
    """Finds free ports and keeps them bound until all are chosen, so that they are distinct."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> "ReservedPorts":
        return self

    def __exit__(self, *_: object) -> None:
        for held in self._sockets:
            held.close()

    def free(self) -> int:
        """Returns a port on which nothing listens."""
        held = socket.socket()
        held.bind((HOST, 0))
        self._sockets.append(held)
        return int(held.getsockname()[1])


def on_free_ports(start: Callable[[], Started], say: Callable[[str], None]) -> Started:
    """Calls `start`, which chooses free ports, and calls it again where one was taken; TRIES times in all."""
    for _ in range(TRIES - 1):
        try:
            return start()
        except PortTaken as problem:
            say(f"{problem}\nStarting again, on other ports.")
    return start()


def port_block(directory: Path) -> Mapping[str, int]:
    """Returns the ports of a further stack: its recorded ones, else the first block that nothing uses."""
    before = _recorded(directory)
    others = {port for file in directory.parent.glob(f"*/{RECORD}") for port in _recorded(file.parent).values()}
    for step in range(1, LAST_STEP):
        # Those that it has had no need of so far are taken from the first block in which they are free.
        block = {process: port + STEP * step for process, port in DEFAULT_PORTS.items() if process not in before}
        if not any(port in others or in_use(port) for port in block.values()):
            return block | before
    raise StackProblem("No block of free ports was found for another stack: set GATEWAY_PORT and the other *_PORT.")


def record_ports(directory: Path, ports: Mapping[str, int]) -> None:
    """Writes the ports of a stack for its next start."""
    own = {process: port for process, port in ports.items() if process in DEFAULT_PORTS}
    write_whole(directory / RECORD, json.dumps(own))


def _recorded(directory: Path) -> dict[str, int]:
    try:
        found = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        return {process: int(port) for process, port in found.items() if process in DEFAULT_PORTS}
    except (OSError, ValueError, AttributeError):
        return {}


def host_of(environment: Mapping[str, str], process: str) -> str:
    """Returns the address to call a process: its *_HOST, or 127.0.0.1 when it listens on all addresses."""
    host = environment.get(f"{process.upper()}_HOST") or HOST
    if host in ("0.0.0.0", "::", "localhost"):
        return HOST
    return f"[{host}]" if ":" in host else host


def in_use(port: int) -> bool:
    """Returns whether something listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
