"""Makes the model that every contender gets: a plain fp32 graph, in a folder that every library can open.

Our served files store weights as int8 and compute in fp32, which peers need not support: dequantised once, the same
numbers are an ordinary fp32 graph. The torch backend cannot read a graph, so its weights are written beside it as a
checkpoint; the bench's comparison of scores shows that they are the same.
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import yaml
from numpy.typing import NDArray
from safetensors.numpy import save_file

from deploy.models.prepare import prepare
from services.inference.digests import file_sha256
from services.inference.profiles import (
    CHECKPOINT,
    CONFIG,
    GRAPH,
    TOKENIZER,
    CrossEncoderProfile,
    DirectorySource,
    ModelError,
)
from workshop.training.quantise import with_fp32_weights
from workshop.training.weights import read_weights

# The name of the model in the models.yaml of the bench, and of its folder.
PLAIN = "plain"
# Special tokens, which the peers read beside graph, tokenizer and configuration.
_SPECIAL = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}

Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PlainModel:
    """Files of the plain model: `folder` for the peers, `models_file` and `folder.parent` for ours."""

    profile: CrossEncoderProfile
    folder: Path
    models_file: Path
    source_sha256: str  # of the graph that was made plain
    torch: str | None  # None, or why there is no checkpoint for the torch backend


def make_plain_model(profile: CrossEncoderProfile, source: Path, directory: Path, max_tokens: int) -> PlainModel:
    """Writes `directory`/models.yaml and `directory`/plain from the model in `source`; takes below a second or two.

    fastembed needs model.onnx, config.json, tokenizer.json and tokenizer_config.json (whose `model_max_length` is its
    only token limit); FlashRank special_tokens_map.json too; sentence-transformers model.safetensors for torch.
    Raises ModelError when the graph computes in int8, or the model is no BERT.
    """
    folder = directory / PLAIN
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    graph = dequantised(onnx.load(source / GRAPH))
    (folder / GRAPH).write_bytes(graph.SerializeToString(deterministic=True))
    shutil.copyfile(source / TOKENIZER, folder / TOKENIZER)
    # FlashRank asks for the padding's id, which transformers assumes to be 0.
    _write(folder / CONFIG, {"pad_token_id": 0} | json.loads((source / CONFIG).read_bytes()))
    limits = {"tokenizer_class": "BertTokenizer", "model_max_length": max_tokens, "do_lower_case": True}
    _write(folder / "tokenizer_config.json", limits | _SPECIAL)
    _write(folder / "special_tokens_map.json", _SPECIAL)
    missing = None
    try:
        save_file(torch_checkpoint(folder / GRAPH), folder / CHECKPOINT, metadata={"format": "pt"})
    except ModelError as error:
        missing = str(error)
    files = {name: file_sha256(folder / name) for name in (GRAPH, CONFIG, TOKENIZER)}
    plain = profile.model_copy(
        update={
            "name": PLAIN,
            "max_tokens": max_tokens,
            "precision": "fp32",
            "activation": "none",
            "session_entries": {},
            "files": files,
            "sources": (DirectorySource(kind="directory", path=str(folder)),),
        }
    )
    prepare(plain, folder)
    return PlainModel(plain, folder, write_models_file(directory / "models.yaml", plain), profile.files[GRAPH], missing)


def write_models_file(path: Path, *profiles: CrossEncoderProfile) -> Path:
    """Writes a models.yaml with these models; returns `path`."""
    listed = [profile.model_dump(mode="json") for profile in profiles]
    path.write_text(yaml.safe_dump({"models": listed}, sort_keys=False), encoding="utf-8")
    return path


def dequantised(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns the model with fp32 weights. Raises ModelError when it computes in int8."""
    if any(node.op_type.startswith(("QuantizeLinear", "DynamicQuantize", "QLinear")) for node in model.graph.node):
        raise ModelError("This graph quantises its activations, so it has no fp32 equal: choose its fp32 sister.")
    return with_fp32_weights(model)


def torch_checkpoint(graph_file: Path) -> dict[str, Array]:
    """Reads the weights by their names in transformers' BertForSequenceClassification. Raises ModelError otherwise."""
    weights = read_weights(graph_file)
    if "classifier.weight" not in weights or "embeddings.word_embeddings.weight" not in weights:
        raise ModelError("The weights do not have the names of a BERT classifier, so torch cannot be given them.")
    return {name if name.startswith("classifier") else f"bert.{name}": value for name, value in weights.items()}


def _write(path: Path, values: Mapping[str, object]) -> None:
    path.write_text(json.dumps(values, indent=1), encoding="utf-8")
