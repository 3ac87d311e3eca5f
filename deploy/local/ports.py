"""Chooses ports on this machine: documented ones, a block for a further stack, free ones."""

import json
import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

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


def free_ports(count: int) -> list[int]:
    """Returns distinct ports on which nothing listens."""
    with ExitStack() as held:  # all are bound until the last one is chosen
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind((HOST, 0))
        return [int(bound.getsockname()[1]) for bound in sockets]


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
        recorded = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        return {process: int(port) for process, port in recorded.items() if process in DEFAULT_PORTS}
    except (OSError, ValueError, AttributeError):
        return {}


def in_use(port: int) -> bool:
    """Returns whether something listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
