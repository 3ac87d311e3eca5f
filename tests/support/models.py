"""Provides models for tests: real ones, fetched once into .models/, and tiny ones built on demand."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from deploy.models.fetch import fetch
from deploy.models.prepare import prepare
from deploy.models.sources import FetchOptions
from services.inference.digests import file_sha256
from services.inference.profiles import (
    MODELS_FILE,
    ROOT,
    CrossEncoderProfile,
    DirectorySource,
    EncoderProfile,
    load_profiles,
)

ENCODER = "all-MiniLM-L6-v2"
CROSS_ENCODER = "minilm-l6-ce-v4"


CONFIG: dict[str, object] = {
    "architectures": ["BertModel"],
    "hidden_act": "gelu",
    "hidden_size": 8,
    "layer_norm_eps": 1e-12,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
}


@cache
def fetched(name: str) -> Path:
    """Returns the folder of a model of models.yaml; fetches it unless `make models` already has."""
    lines: list[str] = []
    return fetch(load_profiles(MODELS_FILE)[name], ROOT / ".models", FetchOptions(ROOT), lines.append)


def tiny_encoder(
    folder: Path, nodes: Sequence[onnx.NodeProto], output: str = "last_hidden_state", **changes: object
) -> EncoderProfile:
    """Writes an encoder to `folder`, of dimension 1 unless `changes` have another.

    `nodes` compute its `last_hidden_state` [batch, tokens, width], or its `pooled` vector [batch, width].
    """
    files = _tiny(folder, nodes, output, ["batch", "width"] if output == "pooled" else ["batch", "tokens", "width"])
    return EncoderProfile.model_validate(
        _shared(files) | {"kind": "encoder", "dimension": 1, "pooling": "mean", "normalise": False} | changes
    )


def tiny_cross_encoder(
    folder: Path, nodes: Sequence[onnx.NodeProto], labels: int = 1, segments: bool = True, **changes: object
) -> CrossEncoderProfile:
    """Writes a cross-encoder to `folder`; `nodes` compute its `logits` [batch, labels]. `segments` adds an input."""
    files = _tiny(folder, nodes, "logits", ["batch", labels], segments)
    profile = CrossEncoderProfile.model_validate(
        _shared(files) | {"kind": "cross-encoder", "activation": "none", "weight": 1.0} | changes
    )
    prepare(profile, folder)
    return profile


def tiny_tokenizer(path: Path) -> Tokenizer:
    """Saves a tokenizer that maps `w0` to `w99` to the ids 10 to 109 and a pair to [CLS] a [SEP] b [SEP].

    The saved file has truncation and padding enabled.
    """
    vocabulary = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "a": 4, "b": 5}
    vocabulary |= {f"w{number}": 10 + number for number in range(100)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    tokenizer.enable_truncation(6)
    tokenizer.enable_padding(length=6)
    tokenizer.save(str(path))
    return tokenizer


def random_weights(seed: int = 7) -> dict[str, NDArray[np.float32]]:
    """Returns the weights of a BERT: 2 layers, width 8, 20 words, 12 positions, large enough to affect the softmax."""
    random = np.random.RandomState(seed)  # NumPy guarantees that its stream never changes

    def normal(*shape: int) -> NDArray[np.float32]:
        return random.standard_normal(shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": normal(20, 8),
        "embeddings.position_embeddings.weight": normal(12, 8),
        "embeddings.token_type_embeddings.weight": normal(2, 8),
        "embeddings.LayerNorm.weight": normal(8),
        "embeddings.LayerNorm.bias": normal(8),
    }
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        for part, (wide, narrow) in {
            "attention.self.query": (8, 8),
            "attention.self.key": (8, 8),
            "attention.self.value": (8, 8),
            "attention.output.dense": (8, 8),
            "intermediate.dense": (16, 8),
            "output.dense": (8, 16),
        }.items():
            weights[f"{layer}.{part}.weight"] = normal(wide, narrow)
            weights[f"{layer}.{part}.bias"] = normal(wide)
        for norm in ("attention.output.LayerNorm", "output.LayerNorm"):
            weights[f"{layer}.{norm}.weight"] = normal(8)
            weights[f"{layer}.{norm}.bias"] = normal(8)
    return weights


def checkpoint(folder: Path, config: dict[str, object] = CONFIG) -> tuple[Path, Path, Path]:
    """Writes config.json and model.safetensors of a small random BERT; returns their paths and one for the graph."""
    (folder / "config.json").write_text(json.dumps(config))
    save_file(random_weights(), folder / "model.safetensors")
    return folder / "config.json", folder / "model.safetensors", folder / "model.onnx"


def node(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), [output], **attributes)


def constant(name: str, values: object) -> onnx.NodeProto:
    return node("Constant", [], name, value=onnx.numpy_helper.from_array(np.array(values), name))


def sum_of_ids(output: str) -> list[onnx.NodeProto]:
    """Nodes that give each row the sum of its token ids, fp32 [batch, 1]."""
    return [
        constant(f"{output}.axis", [1]),
        node("Mul", ["input_ids", "attention_mask"], f"{output}.real"),
        node("ReduceSum", [f"{output}.real", f"{output}.axis"], f"{output}.sum", keepdims=1),
        node("Cast", [f"{output}.sum"], output, to=TensorProto.FLOAT),
    ]


def ids_as_hidden() -> list[onnx.NodeProto]:
    """Nodes of an encoder whose hidden state is the token id itself, fp32 [batch, tokens, 1]."""
    return [
        constant("axis", [2]),
        node("Unsqueeze", ["input_ids", "axis"], "wide"),
        node("Cast", ["wide"], "last_hidden_state", to=TensorProto.FLOAT),
    ]


def _tiny(
    folder: Path, nodes: Sequence[onnx.NodeProto], output: str, shape: list[str | int], segments: bool = True
) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask", *(["token_type_ids"] if segments else []))
    ]
    graph = helper.make_graph(
        list(nodes), "tiny", inputs, [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    tiny_tokenizer(folder / "tokenizer.json")
    return {name: file_sha256(folder / name) for name in ("model.onnx", "tokenizer.json", "config.json")}


def _shared(files: dict[str, str]) -> dict[str, object]:
    return {
        "name": "tiny",
        "max_tokens": 32,
        "precision": "fp32",
        "default": True,
        "trained_on": "its card does not say",
        "files": files,
        "sources": [DirectorySource(kind="directory", path="nowhere")],
    }
