"""Makes a small ColBERT: the random BERT of models.py with a projection, markers, [MASK] and punctuation."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from deploy.models.bert_graph import build
from services.inference.digests import file_sha256
from services.inference.profiles import TokenEncoderProfile
from tests.support.models import CONFIG, random_weights

VOCABULARY = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "[Q]",
    "[D]",
    ".",
    ",",
    "oil",
    "the",
    "chain",
    "brake",
    "bike",
    "##s",
)
IDS = {token: number for number, token in enumerate(VOCABULARY)}
DIMENSION = 4
POSITIONS = 12
# How a small ColBERT is used, and a plain encoder of which every token is a vector.
COLBERT: dict[str, object] = {
    "dimension": DIMENSION,
    "query_marker": "[Q]",
    "passage_marker": "[D]",
    "query_tokens": 7,
    "fill_queries": True,
}
PLAIN: dict[str, object] = {"dimension": 8, "query_tokens": POSITIONS}


def projection() -> NDArray[np.float32]:
    """Returns the weights of the linear layer, [DIMENSION, 8]."""
    return np.random.RandomState(11).standard_normal((DIMENSION, 8)).astype(np.float32)


def small_token_encoder(folder: Path, use: dict[str, object]) -> TokenEncoderProfile:
    """Writes the model to `folder`, for COLBERT or PLAIN, and returns its profile."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = random_weights()
    architecture = "BertModel"
    if use is COLBERT:
        architecture = "HF_ColBERT"
        weights = {f"bert.{name}": values for name, values in weights.items()} | {"linear.weight": projection()}
    config, checkpoint, graph = (folder / name for name in ("config.json", "checkpoint.safetensors", "model.onnx"))
    config.write_text(json.dumps(CONFIG | {"architectures": [architecture]}))
    save_file(weights, checkpoint)
    build(config, checkpoint, graph)
    tokenizer = Tokenizer(WordPiece(IDS, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    special = [("[CLS]", IDS["[CLS]"]), ("[SEP]", IDS["[SEP]"])]
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B", special_tokens=special
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    files = {name: file_sha256(folder / name) for name in ("model.onnx", "tokenizer.json", "config.json")}
    return TokenEncoderProfile.model_validate(
        {
            "name": folder.name,
            "kind": "token-encoder",
            "max_tokens": POSITIONS,
            "precision": "fp32",
            "default": False,
            "trained_on": "its card does not say",
            "files": files,
            "sources": [{"kind": "directory", "path": "nowhere"}],
        }
        | use
    )
