"""Checks that fused attention gives the same results with the mask in the keys, and needs no transposition."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploy.models.graph_rewrites.attention import fuse_attention, move_mask_into_keys
from services.inference.profiles import GRAPH
from tests.support.graphs import answer, changed, how_many, run, scaled_otherwise, session_of, small_bert
from tests.support.models import CROSS_ENCODER, fetched


def fused(model):
    return changed(model, move_mask_into_keys, fuse_attention)


def adds_of_masks(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Add" and "mask.added" in node.input for node in model.graph.node)


@pytest.mark.parametrize("shape", [(1, 1), (2, 12), (3, 7)])
def test_padding_stays_masked(shape):
    model = small_bert()
    assert (adds_of_masks(model), adds_of_masks(changed(model, move_mask_into_keys))) == (2, 0)
    assert [how_many(fused(model), kind) for kind in ("MultiHeadAttention", "Softmax")] == [2, 0]
    np.testing.assert_allclose(run(fused(model), shape), run(model, shape), atol=1e-6)


def test_our_own_model_gives_the_same_scores():
    model = onnx.load(fetched(CROSS_ENCODER) / GRAPH)
    assert how_many(fused(model), "MultiHeadAttention") == 6
    whole, rewritten = session_of(model), session_of(fused(model))
    for shape in ((1, 9), (3, 40)):
        np.testing.assert_allclose(answer(rewritten, shape)[0], answer(whole, shape)[0], atol=2e-6)


def test_transpositions_of_heads_are_removed(tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / GRAPH)
    onnxruntime.InferenceSession(fused(small_bert()).SerializeToString(), options)
    assert how_many(onnx.load(tmp_path / GRAPH), "Transpose") <= 1  # of the mask, once for all layers


def test_products_that_are_multiplied_or_not_scaled_are_fused_too():
    for model in scaled_otherwise():
        assert how_many(fused(model), "Softmax") == 0
        np.testing.assert_allclose(run(fused(model), (3, 7)), run(model, (3, 7)), atol=1e-5)


def test_attention_with_an_added_mask_stays():
    model = small_bert()
    assert changed(model, fuse_attention) == model


def test_a_value_that_another_node_reads_stays():
    model = small_bert()
    model.graph.output.append(
        helper.make_tensor_value_info("encoder.layer.1.attention.shares", TensorProto.FLOAT, None)
    )
    assert [how_many(fused(model), kind) for kind in ("MultiHeadAttention", "Softmax")] == [1, 1]


def test_a_mask_that_is_read_elsewhere_or_differs_by_query_token_stays():
    model = small_bert()
    model.graph.output.append(
        helper.make_tensor_value_info("encoder.layer.1.attention.likeness", TensorProto.FLOAT, None)
    )
    assert adds_of_masks(changed(model, move_mask_into_keys)) == 1
    by_token = small_bert()
    for node in by_token.graph.node:
        if "mask.added" in node.input:
            node.input[1] = "by_token"
    by_token.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 1, 5, 5), dtype=np.float32), "by_token"))
    assert changed(by_token, move_mask_into_keys) == by_token
