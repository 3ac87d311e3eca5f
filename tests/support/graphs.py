"""Builds a small BERT as an ONNX graph, and changes and runs graphs for tests."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from deploy.models.bert_graph import BertConfig, bert_model
from deploy.models.prepare import prepare
from services.inference.digests import file_sha256
from services.inference.profiles import GRAPH, CrossEncoderProfile
from tests.support.models import CONFIG, node, random_weights, sum_of_ids, tiny_cross_encoder

# As our own model with int8 weights asks for in models.yaml.
PLAIN = {"session.disable_quant_qdq": "1"}


def small_bert() -> onnx.ModelProto:
    """Two layers, two heads, random weights, 20 words."""
    return bert_model(BertConfig.model_validate(CONFIG | {"architectures": ("BertModel",)}), random_weights())


def small_cross_encoder(folder: Path) -> CrossEncoderProfile:
    """A prepared folder: a small BERT whose score is the mean of its first token."""
    profile = tiny_cross_encoder(folder, sum_of_ids("logits"))
    model = small_bert()
    model.graph.initializer.append(numpy_helper.from_array(np.array(0, dtype=np.int64), "first"))
    model.graph.node.append(node("Gather", ["last_hidden_state", "first"], "first_token", axis=1))
    model.graph.node.append(node("ReduceMean", ["first_token"], "logits", axes=[1]))
    del model.graph.output[:]
    model.graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1]))
    onnx.save(model, folder / GRAPH)
    profile = profile.model_copy(update={"files": profile.files | {GRAPH: file_sha256(folder / GRAPH)}})
    prepare(profile, folder)
    return profile


def scaled_otherwise() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Returns two graphs that do not divide the product of queries and keys: one multiplies it, one leaves it."""
    scaled, plain = small_bert(), small_bert()
    for one in scaled.graph.node:
        if one.op_type == "Div" and one.output[0].endswith("scaled"):
            one.op_type = "Mul"
    kept = [one for one in plain.graph.node if not one.output[0].endswith("scaled")]
    for one in kept:
        one.input[:] = [name.replace("attention.scaled", "attention.likeness") for name in one.input]
    del plain.graph.node[:]
    plain.graph.node.extend(kept)
    return scaled, plain


def changed(model: onnx.ModelProto, *edits: Callable[[onnx.ModelProto], None]) -> onnx.ModelProto:
    """Returns a copy with `edits` applied."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for edit in edits:
        edit(copy)
    return copy


def how_many(model: onnx.ModelProto, kind: str) -> int:
    """Counts the nodes of a kind."""
    return sum(node.op_type == kind for node in model.graph.node)


def random_feed(rows: int, tokens: int, words: int) -> dict[str, NDArray[np.int64]]:
    """Rows of random words; the last one is padded from half its length on."""
    ids = np.random.default_rng(rows * tokens).integers(1, words, (rows, tokens))
    mask = np.ones_like(ids)
    mask[-1, (tokens + 1) // 2 :] = 0
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def session_of(model: onnx.ModelProto, entries: dict[str, str] = PLAIN) -> onnxruntime.InferenceSession:
    """Opens a graph, as our own model asks for unless `entries` say otherwise."""
    options = onnxruntime.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def answer(
    session: onnxruntime.InferenceSession, shape: tuple[int, int], words: int = 30_000
) -> tuple[NDArray[np.float32], ...]:
    """The outputs of a session for random rows of this shape."""
    feed = random_feed(*shape, words)
    return tuple(session.run(None, {value.name: feed[value.name] for value in session.get_inputs()}))


def run(
    model: onnx.ModelProto, shape: tuple[int, int], words: int = 20, entries: dict[str, str] = PLAIN
) -> NDArray[np.float32]:
    """The first output for random rows of this shape."""
    return answer(session_of(model, entries), shape, words)[0]
