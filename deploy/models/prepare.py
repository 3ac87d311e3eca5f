"""Rewrites a cross-encoder's graph once, and keeps the results beside it for the services to open.

Owns when a folder is prepared again. The rewrites are left to graph_rewrites; choosing a result is left to
services/inference/prepared_graphs.py.
"""

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from services.files.disk_writes import write_whole
from services.inference.digests import file_mismatch
from services.inference.prepared_graphs import RECORD, PreparedFile, PreparedRecord, Variant, read_record
from services.inference.profiles import GRAPH, CrossEncoderProfile, ModelError

REWRITE_CODE = Path(__file__).parent / "graph_rewrites"


def prepare(profile: CrossEncoderProfile, folder: Path) -> bool:
    """Prepares a graph for every variant; returns False when `folder` already holds them.

    The record is replaced last and atomically, so that it always names existing graphs; then the old graphs are
    removed. The caller holds a lock. Raises ModelError when model.onnx is not the declared file or not a graph.
    """
    source, rewrite = profile.files[GRAPH], rewrite_sha256(REWRITE_CODE, version("onnx"))
    if _is_prepared(folder, source, rewrite):
        return False
    wrong = file_mismatch(folder / GRAPH, source)
    if wrong is not None:
        raise ModelError(f"The model in {folder} cannot be prepared: {wrong}.")
    graphs = {variant: _rewrite(folder, variant) for variant in get_args(Variant)}
    record = PreparedRecord(source_sha256=source, rewrite_sha256=rewrite, graphs=graphs)
    write_whole(folder / RECORD, record.model_dump_json(indent=1))
    kept = {graph.file for graph in graphs.values()}
    for file in folder.glob("prepared-*"):
        if file.name not in kept:
            file.unlink()
    return True


def rewrite_sha256(code: Path, onnx_version: str) -> str:
    """Computes the sha256 of what determines a rewritten graph besides its source: the modules in `code`, and onnx."""
    digest = hashlib.sha256(onnx_version.encode())
    for file in sorted(code.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _is_prepared(folder: Path, source: str, rewrite: str) -> bool:
    record = read_record(folder)
    if record is None or (record.source_sha256, record.rewrite_sha256) != (source, rewrite):
        return False
    graphs = record.graphs
    complete = graphs.keys() == set(get_args(Variant))
    return complete and all(file_mismatch(folder / graph.file, graph.sha256) is None for graph in graphs.values())


def _rewrite(folder: Path, variant: Variant) -> PreparedFile:
    # Imported here: encoders and prepared folders need no onnx.
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types

    from deploy.models.graph_rewrites import rewrite_graph

    try:
        graph = rewrite_graph((folder / GRAPH).read_bytes(), onnxruntime_cpu=variant == "onnxruntime-cpu")
    except DecodeError as error:
        raise ModelError(f"{folder / GRAPH} is not an ONNX graph: {error}.") from error
    sha256 = hashlib.sha256(graph).hexdigest()
    # Named by its content, so that a new graph never overwrites one that a record still names.
    file = f"prepared-{variant}-{sha256[:12]}.onnx"
    write_whole(folder / file, graph)
    return PreparedFile(file=file, sha256=sha256)
