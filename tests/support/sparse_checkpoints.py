"""Writes small random checkpoints of sparse encoders as models are served: two layers of width 8, 20 terms."""

import json
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer

from deploy.models.bert_graph import build, head_of
from services.inference.digests import file_sha256
from services.inference.profiles import DirectorySource, SparseEncoderProfile
from tests.support.models import CONFIG, random_weights, tiny_tokenizer

SPECIAL = {0, 1, 2, 3}  # [PAD], [UNK], [CLS] and [SEP]; `w0` to `w9` are 10 to 19
IDF = {"w0": 0.5, "w1": 2.0, "w2": 7.25}


def sparse_weights() -> dict[str, NDArray[np.float32]]:
    """Returns the weights of a BERT with a head of masked language modelling, named as in BertModel."""
    random = np.random.RandomState(8)
    shapes = {"transform.dense.weight": (8, 8), "transform.dense.bias": (8,), "bias": (20,)}
    shapes |= {"transform.LayerNorm.weight": (8,), "transform.LayerNorm.bias": (8,)}
    head = {
        f"cls.predictions.{name}": random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
    }
    return random_weights() | head


def old_name(name: str) -> str:
    """Returns the name of a tensor in an old checkpoint of BertForMaskedLM."""
    name = name if name.startswith("cls.") else f"bert.{name}"
    return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")


# What DistilBERT calls the parts of BertForMaskedLM (transformers, modeling_distilbert.py).
_DISTILBERT = {
    "attention.self.query": "attention.q_lin",
    "attention.self.key": "attention.k_lin",
    "attention.self.value": "attention.v_lin",
    "attention.output.dense": "attention.out_lin",
    "attention.output.LayerNorm": "sa_layer_norm",
    "intermediate.dense": "ffn.lin1",
    "output.dense": "ffn.lin2",
    "output.LayerNorm": "output_layer_norm",
    "cls.predictions.transform.dense": "vocab_transform",
    "cls.predictions.transform.LayerNorm": "vocab_layer_norm",
    "cls.predictions": "vocab_projector",
}


def distilbert_weights() -> dict[str, NDArray[np.float32]]:
    """Returns `sparse_weights` with token types that change nothing, of which a DistilBERT has none."""
    weights = sparse_weights()
    types = "embeddings.token_type_embeddings.weight"
    return weights | {types: np.zeros_like(weights[types])}


def write_distilbert(folder: Path, architecture: str = "DistilBertForMaskedLM") -> tuple[Path, Path, Path]:
    """Writes config.json and model.safetensors of `distilbert_weights`; returns them and a path for the graph."""
    tensors: dict[str, NDArray[np.float32]] = {}
    for name, values in distilbert_weights().items():
        part, _, kind = name.rpartition(".")
        if part.startswith("encoder.layer."):
            layer, part = part[:15], part[16:]
            tensors[f"distilbert.transformer.{layer.removeprefix('encoder.')}.{_DISTILBERT[part]}.{kind}"] = values
        elif part.startswith("cls."):
            tensors[f"{_DISTILBERT[part]}.{kind}"] = values
        elif "token_type" not in part:
            tensors[f"distilbert.{name}"] = values
    sizes = {"activation": "gelu", "dim": 8, "n_heads": 2, "n_layers": 2, "vocab_size": 20}
    described = {"architectures": [architecture], "model_type": "distilbert", "max_position_embeddings": 12, **sizes}
    (folder / "config.json").write_text(json.dumps(described))
    save_file(tensors, folder / "model.safetensors")
    return folder / "config.json", folder / "model.safetensors", folder / "model.onnx"


def write_masked_lm(folder: Path, **config: object) -> tuple[Path, Path, Path]:
    """Writes config.json and model.safetensors of a masked language model; returns them and a path for the graph."""
    described = CONFIG | {"architectures": ["BertForMaskedLM"], "model_type": "bert"} | config
    (folder / "config.json").write_text(json.dumps(described))
    save_file({old_name(name): values for name, values in sparse_weights().items()}, folder / "model.safetensors")
    return folder / "config.json", folder / "model.safetensors", folder / "model.onnx"


def sparse_checkpoint(
    folder: Path,
    method: Literal["splade", "sparta", "inference-free"] = "splade",
    idf: dict[str, float] | None = None,
    bias: float = 0.0,
) -> SparseEncoderProfile:
    """Writes a served folder; `idf` adds a table of weights by word piece."""
    folder.mkdir(parents=True, exist_ok=True)
    config, weights, graph = write_masked_lm(folder)
    if method == "sparta":
        config.write_text(json.dumps(CONFIG | {"model_type": "bert"}))
    tiny_tokenizer(folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("[PAD]", "[UNK]")])
    tokenizer.save(str(folder / "tokenizer.json"))
    names = ["model.onnx", "tokenizer.json", "config.json"]
    if idf is not None:
        (folder / "idf.json").write_text(json.dumps(idf))
        names.append("idf.json")
    described = {
        "name": "small-sparse",
        "kind": "sparse-encoder",
        "method": method,
        "vocabulary": 20,
        "bias": bias,
        "idf": None if idf is None else "idf.json",
        "max_tokens": 12,
        "precision": "fp32",
        "default": False,
        "trained_on": "its card does not say",
        "files": dict.fromkeys(names, "0" * 64),
        "sources": [DirectorySource(kind="directory", path="nowhere")],
    }
    profile = SparseEncoderProfile.model_validate(described)
    build(config, weights, graph, head_of(profile))
    return profile.model_copy(update={"files": {name: file_sha256(folder / name) for name in names}})
