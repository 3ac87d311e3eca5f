"""Which file of a model's folder a runtime opens: the graph itself, or one that was prepared from a cross-encoder's.

It owns the record of the prepared graphs. deploy/models/prepare.py makes them (`make models`), nothing here does.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from services.inference.digests import difference, mismatch
from services.inference.graph import Runtime
from services.inference.profiles import GRAPH, CrossEncoderProfile, EncoderProfile, FileName, ModelError, Sha256

RECORD = "prepared.json"
# onnxruntime-cpu  may hold operators that ONNX Runtime has for CPUs alone
# portable         plain ONNX: other libraries, and GPUs, fuse by themselves what looks as it was exported
Variant = Literal["onnxruntime-cpu", "portable"]


class PreparedFile(BaseModel):
    """A prepared graph, in the folder of its record."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: FileName
    sha256: Sha256


class Prepared(BaseModel):
    """The record: which graph was rewritten, by which code, and the results."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_sha256: Sha256
    rewrite_sha256: Sha256
    graphs: dict[Variant, PreparedFile]


def verified_graph(profile: EncoderProfile | CrossEncoderProfile, folder: Path, runtime: Runtime) -> Path:
    """The graph of `folder` that `runtime` opens. Raises ModelError when a file is not the declared one."""
    path = folder / GRAPH
    wrong = difference(profile, folder)
    if wrong is None and isinstance(profile, CrossEncoderProfile):
        variant = variant_of(runtime)
        record = read_record(folder)
        made = record.graphs.get(variant) if record is not None else None
        if record is None or made is None:
            wrong = f"{RECORD} names no graph for {variant}"
        elif record.source_sha256 != profile.files[GRAPH]:
            wrong = f"its graphs were prepared from another {GRAPH}"
        else:
            path = folder / made.file
            wrong = mismatch(path, made.sha256, said_by=RECORD)
    if wrong is not None:
        raise ModelError(
            f"The model in {folder} is not usable: {wrong}; `make models MODELS={profile.name}` puts it right."
        )
    return path


def variant_of(runtime: Runtime) -> Variant:
    """The prepared graph that fits a runtime."""
    on_cpu = runtime.library == "onnxruntime" and runtime.provider == "cpu"
    return "onnxruntime-cpu" if on_cpu else "portable"


def read_record(folder: Path) -> Prepared | None:
    """The record of a folder; None when there is none, or none of this form."""
    try:
        return Prepared.model_validate_json((folder / RECORD).read_bytes())
    except (OSError, ValidationError):
        return None
