"""Who takes part: opens ours and the peers as long-lived processes, each with what makes its scores comparable."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from services.inference.profiles import ROOT
from workshop.bench.analysis import HTTP, INT8, OURS, SESSION
from workshop.bench.contender import Command, Contender, ContenderError, Worker
from workshop.bench.plain_model import PLAIN, Plain
from workshop.bench.service_process import Service

PEERS = ROOT / ".cache" / "peers-venv"
# By the name in the report: the name that peer.py knows, and what comes first on its import path.
PEER_NAMES: Mapping[str, tuple[str, Path | None]] = {
    "sentence-transformers-onnx": ("sentence-transformers-onnx", None),
    # Up to 5.3 it batched in arrival order; who has not upgraded has this one.
    "sentence-transformers-5.3-onnx": ("sentence-transformers-onnx", PEERS / "unsorted"),
    "sentence-transformers-torch": ("sentence-transformers-torch", None),
    "fastembed": ("fastembed", None),
    "flashrank": ("flashrank", None),
}
# No contender may remember what it scored a round before.
_FORGETFUL = {"RERANKER_PASSAGE_CACHE_MB": "0", "RERANKER_SCORE_CACHE_MB": "0"}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True, slots=True)
class Served:
    """A model of models.yaml and the engine that runs it."""

    model: str
    engine: str = "onnxruntime"

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `model` or `model@engine`."""
        model, _, engine = text.partition("@")
        return cls(model, engine or "onnxruntime")

    @property
    def name(self) -> str:
        """`model@engine`."""
        return f"{self.model}@{self.engine}"

    @property
    def environment(self) -> dict[str, str]:
        """The settings of a service that serves it."""
        return {"RERANKER_MODEL": self.model, "RERANKER_ENGINE": self.engine, **_FORGETFUL}


def open_ours(
    plain: Plain, limited: Path, models: Path, served: Served, int8: Served | None, log: Path
) -> dict[str, Contender]:
    """The plain model through our code, and what the service serves from `models`: its session alone, and over HTTP.

    `limited` is a models.yaml in which the served models have the limit of tokens of the plain one.

    Raises ContenderError.
    """
    directory = {"RERANKER_MODELS": str(models)}
    plainly = Served(PLAIN).environment | {"RERANKER_MODELS": str(plain.folder.parent)}
    opened: dict[str, Contender] = {OURS: _ours("scorer", plain.models_file, plainly, log)}
    if int8 is not None:
        opened[INT8] = _ours("scorer", limited, int8.environment | directory, log)
    opened[SESSION] = _ours("session", limited, served.environment | directory, log)
    opened[HTTP] = Service(limited, served.environment | directory, log)
    return opened


def open_peer(name: str, plain: Plain, log: Path) -> Worker:
    """One of PEER_NAMES on the plain model, with its own defaults for everything else. Raises ContenderError."""
    peer, first = PEER_NAMES[name]
    if peer.endswith("-torch") and plain.torch is not None:
        raise ContenderError(plain.torch)
    python = PEERS / "bin" / "python"
    if not python.exists():
        raise ContenderError(f"{PEERS} is not there; `make bench-rerank` sets it up.")
    script = Path(__file__).with_name("peer.py")
    # -P: what lies beside the script is ours, and must not be imported in a library's place.
    arguments = [str(python), "-P", str(script), peer, str(plain.folder), str(plain.profile.max_tokens)]
    environment = _OFFLINE if first is None else _OFFLINE | {"PYTHONPATH": str(first)}
    return Worker(Command(arguments, environment, library_defaults=True), log)


def _ours(what: str, models_file: Path, environment: Mapping[str, str], log: Path) -> Worker:
    arguments = [sys.executable, "-m", "workshop.bench.ours", what, str(models_file)]
    return Worker(Command(arguments, environment), log)
