"""What the caller chose: which engines, which ports, which directory. Decided once, before anything starts."""

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local.problem import StackProblem

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
DEFAULT_PORTS = {"gateway": 8000, "lexical": 8001, "dense": 8002, "reranker": 8003, "evaluator": 8009}


@dataclass(frozen=True, slots=True)
class Choices:
    """One stack: its directory, a port for each process, and the environment that all of them get."""

    directory: Path
    lexical: str  # edge | elasticsearch
    dense: str  # edge | qdrant
    ports: Mapping[str, int]
    elasticsearch_url: str | None  # None: we start one, if lexical wants it
    prefix: str  # of names on servers that this stack shares with others

    @property
    def starts_elasticsearch(self) -> bool:
        """Whether a server of our own belongs to this stack."""
        return self.lexical == "elasticsearch" and self.elasticsearch_url is None

    @property
    def chosen(self) -> str:
        """What the caller decided, for comparison with a stack that runs (the port of our Elasticsearch is free)."""
        ports = {process: port for process, port in self.ports.items() if process != "elasticsearch"}
        return json.dumps([self.lexical, self.dense, ports, self.elasticsearch_url])

    def url(self, process: str) -> str:
        """Where a process of this stack listens."""
        return f"http://{HOST}:{self.ports[process]}"

    def environment(self) -> dict[str, str]:
        """The settings by which the processes of this stack find their engines, their directories and one another."""
        own = {
            "LEXICAL_ENGINE": self.lexical,
            "LEXICAL_DIRECTORY": str(self.directory / "lexical"),
            "LEXICAL_INDEX_PREFIX": self.prefix,
            "DENSE_STORE": self.dense,
            "DENSE_DIRECTORY": str(self.directory / "dense"),
            "DENSE_PREFIX": f"{self.prefix}dense.",
            "GATEWAY_URL": self.url("gateway"),
            "GATEWAY_BACKENDS": json.dumps(
                {name: {"family": name, "url": self.url(name)} for name in ("lexical", "dense", "reranker")}
            ),
        }
        # glibc keeps an arena a thread; two keep a process with both models at 387 MB instead of 446, for the same CPU.
        own["MALLOC_ARENA_MAX"] = "2"
        own |= {
            f"{process.upper()}_PORT": str(port) for process, port in self.ports.items() if process != "elasticsearch"
        }
        if self.starts_elasticsearch:
            own["ELASTICSEARCH_URL"] = self.url("elasticsearch")
        return own


def choose(environment: Mapping[str, str], directory: Path, *, own_ports: bool) -> Choices:
    """Reads ENGINE, LEXICAL, DENSE, QDRANT_URL, ELASTICSEARCH_URL and the ports. Raises StackProblem.

    `own_ports` takes free ports in place of the settable ones, so that a demo runs beside `make up`.
    """
    engine = _one_of(environment, "ENGINE", ("embedded", "server"), "embedded")
    servers = engine == "server"
    lexical = _one_of(environment, "LEXICAL", ("edge", "elasticsearch"), "elasticsearch" if servers else "edge")
    dense = _one_of(environment, "DENSE", ("edge", "qdrant"), "qdrant" if servers else "edge")
    if dense == "qdrant" and not environment.get("QDRANT_URL"):
        raise StackProblem(
            "DENSE=qdrant needs a Qdrant server: set QDRANT_URL to its address (`docker run -p 6333:6333 qdrant/qdrant`"
            " puts one at http://127.0.0.1:6333), or leave DENSE out to use the embedded engine; nothing was started."
        )
    elasticsearch_url = environment.get("ELASTICSEARCH_URL") or None
    # A demo must not publish its collections over those of `make up` when both use one server.
    prefix = environment.get("LEXICAL_INDEX_PREFIX", "") + ("demo-" if own_ports else "")
    ports: dict[str, int] = {}
    with _Reserved() as reserved:
        for process, default in DEFAULT_PORTS.items():
            ports[process] = reserved.free() if own_ports else _port(environment, f"{process.upper()}_PORT", default)
        if lexical == "elasticsearch" and elasticsearch_url is None:
            ports["elasticsearch"] = reserved.free()
    return Choices(directory, lexical, dense, ports, elasticsearch_url, prefix)


def _one_of(environment: Mapping[str, str], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = environment.get(name) or default
    if value not in allowed:
        raise StackProblem(f"{name}={value} is none of the choices: take {' or '.join(allowed)}.")
    return value


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name) or str(default)
    if not value.isdigit() or not 1 <= int(value) <= 65_535:
        raise StackProblem(f"{name}={value} is no port: take a number from 1 to 65535.")
    return int(value)


class _Reserved:
    """Holds the free ports that it gave out until all are chosen, so that no two are the same."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> "_Reserved":
        return self

    def __exit__(self, *_: object) -> None:
        for held in self._sockets:
            held.close()

    def free(self) -> int:
        held = socket.socket()
        held.bind((HOST, 0))
        self._sockets.append(held)
        return int(held.getsockname()[1])


def taken(port: int) -> bool:
    """Whether something already listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0
