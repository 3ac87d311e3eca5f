"""Chooses and verifies the graph file that is opened: model.onnx, or the graph prepared from a cross-encoder's.

Owns the format of prepared.json. Preparing graphs is left to deploy/models/prepare.py (`make models`).
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from services.files.regular_file import read_regular
from services.inference.digests import file_mismatch, folder_mismatch
from services.inference.profiles import GRAPH, CrossEncoderProfile, FileName, ModelError, ModelProfile, Sha256

RECORD = "prepared.json"
# onnxruntime-cpu  may use operators that ONNX Runtime has on CPUs alone
# portable         plain ONNX as it was exported: on GPUs ONNX Runtime recognises its patterns and fuses them
Variant = Literal["onnxruntime-cpu", "portable"]
Provider = Literal["cpu", "cuda"]


class PreparedFile(BaseModel):
    """A prepared graph beside its record: its file name and sha256."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: FileName
    sha256: Sha256


class PreparedRecord(BaseModel):
    """Content of prepared.json: the sha256 of the source graph and of the rewriting code, and the results."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_sha256: Sha256
    rewrite_sha256: Sha256
    graphs: dict[Variant, PreparedFile]


def verified_graph(profile: ModelProfile, folder: Path, provider: Provider, graph: FileName = GRAPH) -> Path:
    """Returns `graph` of `folder` as `provider` opens it. Raises ModelError when a file is not the declared one."""
    path = folder / graph
    wrong = folder_mismatch(profile, folder)
    if wrong is None and isinstance(profile, CrossEncoderProfile):
        variant = variant_of(provider)
        record = read_record(folder)
        prepared = record.graphs.get(variant) if record is not None else None
        if record is None or prepared is None:
            wrong = f"{RECORD} names no graph for {variant}"
        elif record.source_sha256 != profile.files[GRAPH]:
            wrong = f"its graphs were prepared from another {GRAPH}"
        else:
            path = folder / prepared.file
            wrong = file_mismatch(path, prepared.sha256, declared_in=RECORD)
    if wrong is not None:
        raise ModelError(
            f"The model in {folder} is not usable: {wrong}; `make models MODELS={profile.name}` puts it right."
        )
    return path


def variant_of(provider: Provider) -> Variant:
    """Returns which prepared graph a provider needs."""
    return "onnxruntime-cpu" if provider == "cpu" else "portable"


def read_record(folder: Path) -> PreparedRecord | None:
    """Reads prepared.json of a folder; None when it is missing or does not parse."""
    try:
        return PreparedRecord.model_validate_json(read_regular(folder / RECORD), extra="ignore")
    except (OSError, ValidationError):
        return None
