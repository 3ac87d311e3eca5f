"""Rewrites a cross-encoder's graph once, and keeps the results beside it for the services to open.

It owns when a folder is prepared anew. What a rewriting does is lean's; which result is opened, services/inference's.
"""

import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import get_args

from services.inference.digests import mismatch
from services.inference.prepared_graphs import RECORD, Prepared, PreparedFile, Variant, read_record
from services.inference.profiles import GRAPH, CrossEncoderProfile, ModelError

CODE = Path(__file__).parent / "graph_rewrites"


def prepare(profile: CrossEncoderProfile, folder: Path) -> bool:
    """Makes sure that `folder` holds a graph for every variant; False when it did already.

    The record is replaced last and at once: a reader has all graphs of the old one or all of the new one, until those
    of the old one are removed. Two calls for one folder need a lock around them. Raises ModelError when model.onnx is
    not the declared file or no graph.
    """
    source, rewrite = profile.files[GRAPH], rewrite_sha256(CODE, version("onnx"))
    if _is_prepared(folder, source, rewrite):
        return False
    wrong = mismatch(folder / GRAPH, source)
    if wrong is not None:
        raise ModelError(f"The model in {folder} cannot be prepared: {wrong}.")
    graphs = {variant: _made(folder, variant) for variant in get_args(Variant)}
    record = Prepared(source_sha256=source, rewrite_sha256=rewrite, graphs=graphs)
    _write(folder / RECORD, record.model_dump_json(indent=1).encode())
    kept = {one.file for one in graphs.values()}
    for file in folder.glob("prepared-*"):
        if file.name not in kept:
            file.unlink()
    return True


def rewrite_sha256(code: Path, onnx_version: str) -> str:
    """The sha256 of what decides a rewritten graph beside the graph itself: the modules in `code`, and onnx."""
    digest = hashlib.sha256(onnx_version.encode())
    for file in sorted(code.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _is_prepared(folder: Path, source: str, rewrite: str) -> bool:
    record = read_record(folder)
    if record is None or (record.source_sha256, record.rewrite_sha256) != (source, rewrite):
        return False
    graphs = record.graphs
    whole = graphs.keys() == set(get_args(Variant))
    return whole and all(mismatch(folder / one.file, one.sha256) is None for one in graphs.values())


def _made(folder: Path, variant: Variant) -> PreparedFile:
    # Imported where a graph is rewritten: encoders, and folders that are prepared, need no onnx.
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types

    from deploy.models.graph_rewrites import lean

    try:
        graph = lean((folder / GRAPH).read_bytes(), onnxruntime_cpu=variant == "onnxruntime-cpu")
    except DecodeError as error:
        raise ModelError(f"{folder / GRAPH} is not an ONNX graph: {error}.") from error
    sha256 = hashlib.sha256(graph).hexdigest()
    # Named by its content: new graphs never take the place of those that a record still names.
    file = f"prepared-{variant}-{sha256[:12]}.onnx"
    _write(folder / file, graph)
    return PreparedFile(file=file, sha256=sha256)


def _write(path: Path, content: bytes) -> None:
    """The whole file or none, also where the process is killed meanwhile."""
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_bytes(content)
    os.replace(unfinished, path)
