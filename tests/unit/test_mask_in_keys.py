"""The mask rides in the keys: no pass over all pairs of tokens adds it, and scores stay what they were."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from services.inference.bert_graph import BertConfig, bert_model
from services.inference.mask_in_keys import mask_in_keys
from services.inference.profiles import GRAPH
from tests.models import CONFIG, CROSS_ENCODER, fetched, random_weights


def small() -> onnx.ModelProto:
    """A BERT of two layers."""
    return bert_model(BertConfig.model_validate(CONFIG | {"architectures": ("BertModel",)}), random_weights())


def changed(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    mask_in_keys(copy)
    return copy


def adds_of_masks(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Add" and "mask.added" in node.input for node in model.graph.node)


def run(model: onnx.ModelProto, rows: int, tokens: int, words: int):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")  # as our own model asks for in models.yaml
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    ids = np.random.default_rng(rows * tokens).integers(1, words, (rows, tokens))
    mask = np.ones_like(ids)
    mask[-1, (tokens + 1) // 2 :] = 0
    return session.run(None, {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})[0]


@pytest.mark.parametrize("shape", [(1, 1), (2, 12), (3, 7)])
def test_padding_stays_unseen(shape):
    model = small()
    assert (adds_of_masks(model), adds_of_masks(changed(model))) == (2, 0)
    np.testing.assert_allclose(run(changed(model), *shape, 20), run(model, *shape, 20), atol=1e-6)


def test_our_own_model_gives_the_same_scores():
    model = onnx.load(fetched(CROSS_ENCODER) / GRAPH)
    assert (adds_of_masks(model), adds_of_masks(changed(model))) == (6, 0)
    for shape in ((1, 9), (4, 100), (2, 256)):
        np.testing.assert_allclose(run(changed(model), *shape, 30000), run(model, *shape, 30000), atol=1e-6)


def test_a_product_that_is_multiplied_or_not_scaled_at_all_is_rewritten_too():
    scaled = small()
    for node in scaled.graph.node:
        if node.op_type == "Div" and node.output[0].endswith("scaled"):
            node.op_type = "Mul"
    plain = small()
    kept = [node for node in plain.graph.node if not node.output[0].endswith("scaled")]
    for node in kept:
        node.input[:] = [name.replace("attention.scaled", "attention.likeness") for name in node.input]
    del plain.graph.node[:]
    plain.graph.node.extend(kept)
    for model in (scaled, plain):
        assert adds_of_masks(changed(model)) == 0
        np.testing.assert_allclose(run(changed(model), 3, 7, 20), run(model, 3, 7, 20), atol=1e-5)


def test_what_somebody_else_reads_stays():
    model = small()
    model.graph.output.append(
        helper.make_tensor_value_info("encoder.layer.1.attention.likeness", TensorProto.FLOAT, None)
    )
    assert adds_of_masks(changed(model)) == 1


def test_a_mask_of_its_own_for_each_token_stays():
    model = small()
    for node in model.graph.node:
        if "mask.added" in node.input:
            node.input[1] = "by_token"
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 1, 5, 5), dtype=np.float32), "by_token"))
    assert changed(model) == model
