"""Writes an encoder-decoder as Optimum exports a T5, which draws words of the passage and then ends."""

import json
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

WORDS = [f"w{number}" for number in range(30)]
VOCABULARY = {"<pad>": 0, "</s>": 1, "<unk>": 2} | {word: 3 + place for place, word in enumerate(WORDS)}
# exp(20): no other token is among those drawn. The end is as probable as a word of the passage.
PREFERRED = 20.0


def write_tiny_t5(folder: Path) -> Path:
    """Writes the four files and returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    size = len(VOCABULARY)
    identity = np.eye(size, dtype=np.float32)
    ends = np.zeros(size, dtype=np.float32)
    ends[VOCABULARY["</s>"]] = PREFERRED
    ends[VOCABULARY["<unk>"]] = -PREFERRED
    _save(
        folder / "encoder_model.onnx",
        {"input_ids": ("ids", ["batch", "read"]), "attention_mask": ("ids", ["batch", "read"])},
        ("last_hidden_state", ["batch", "read", size]),
        [helper.make_node("Gather", ["identity", "input_ids"], ["last_hidden_state"])],
        {"identity": identity},
    )
    _save(
        folder / "decoder_model.onnx",
        {
            "encoder_attention_mask": ("ids", ["batch", "read"]),
            "input_ids": ("ids", ["batch", "written"]),
            "encoder_hidden_states": ("numbers", ["batch", "read", size]),
        },
        ("logits", ["batch", "written", size]),
        [
            helper.make_node("ReduceMax", ["encoder_hidden_states", "axis"], ["held"], keepdims=1),
            helper.make_node("Mul", ["held", "words"], ["preferred"]),
            helper.make_node("Gather", ["zero", "input_ids"], ["nothing"]),
            helper.make_node("Add", ["preferred", "nothing"], ["biased"]),
            helper.make_node("Add", ["biased", "ends"], ["logits"]),
        ],
        {
            "axis": np.array([1], dtype=np.int64),
            "words": np.where(np.arange(size) > 2, np.float32(PREFERRED), np.float32(0)),
            "zero": np.zeros((size, size), dtype=np.float32),
            "ends": ends,
        },
    )
    (folder / "config.json").write_text(json.dumps({"decoder_start_token_id": 0, "eos_token_id": 1, "d_model": size}))
    tokenizer = Tokenizer(WordLevel(VOCABULARY, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _save(
    path: Path,
    inputs: dict[str, tuple[str, list[str | int]]],
    output: tuple[str, list[str | int]],
    nodes: list[onnx.NodeProto],
    constants: dict[str, NDArray[np.generic]],
) -> None:
    kinds = {"ids": TensorProto.INT64, "numbers": TensorProto.FLOAT}
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info(name, kinds[kind], shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))
