"""Opens the contenders as long-lived processes: ours and the peers, with comparable settings. Measures nothing."""

import sys
from collections.abc import Mapping
from pathlib import Path

from services.inference.profiles import ROOT
from workshop.bench.analysis import HTTP, INT8, OURS, SESSION
from workshop.bench.contender import Contender, ContenderCommand, ContenderError, ContenderProcess
from workshop.bench.plain_model import PLAIN, PlainModel
from workshop.bench.service_process import ServiceProcess

PEERS = ROOT / ".cache" / "peers-venv"
PEER_NAMES = ("sentence-transformers-onnx", "sentence-transformers-torch", "fastembed", "flashrank")
# Without caches: a repeated round must cost as much as the first.
_CACHES_OFF = {"RERANKER_PASSAGE_CACHE_MB": "0", "RERANKER_SCORE_CACHE_MB": "0"}
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def service_environment(model: str) -> dict[str, str]:
    """Returns the environment of a service that serves a model of models.yaml."""
    return {"RERANKER_MODEL": model, **_CACHES_OFF}


def open_ours(
    plain: PlainModel, limited: Path, models: Path, served: str, int8: str | None, log: Path
) -> dict[str, Contender]:
    """Opens the plain model in our scorer, and the served models of `models` as bare session and over HTTP.

    `limited` is a models.yaml in which the served models have the token limit of the plain one.
    Raises ContenderError.
    """
    directory = {"RERANKER_MODELS": str(models)}
    plainly = service_environment(PLAIN) | {"RERANKER_MODELS": str(plain.folder.parent)}
    opened: dict[str, Contender] = {OURS: _open_our_process("scorer", plain.models_file, plainly, log)}
    if int8 is not None:
        opened[INT8] = _open_our_process("scorer", limited, service_environment(int8) | directory, log)
    opened[SESSION] = _open_our_process("session", limited, service_environment(served) | directory, log)
    opened[HTTP] = ServiceProcess(limited, service_environment(served) | directory, log)
    return opened


def open_peer(name: str, plain: PlainModel, log: Path) -> ContenderProcess:
    """Opens one of PEER_NAMES on the plain model, with the library's defaults otherwise. Raises ContenderError."""
    if name.endswith("-torch") and plain.torch is not None:
        raise ContenderError(plain.torch)
    python = PEERS / "bin" / "python"
    if not python.exists():
        raise ContenderError(f"{PEERS} is not there; `make bench-rerank` sets it up.")
    script = Path(__file__).with_name("peer.py")
    # -P: keeps our modules beside the script from being imported in place of a library's.
    arguments = [str(python), "-P", str(script), name, str(plain.folder), str(plain.profile.max_tokens)]
    return ContenderProcess(ContenderCommand(arguments, _OFFLINE, library_defaults=True), log)


def _open_our_process(what: str, models_file: Path, environment: Mapping[str, str], log: Path) -> ContenderProcess:
    arguments = [sys.executable, "-m", "workshop.bench.ours", what, str(models_file)]
    return ContenderProcess(ContenderCommand(arguments, environment), log)
