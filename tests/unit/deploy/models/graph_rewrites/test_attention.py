"""Attention in one operation: what it gives stays what it was, and ONNX Runtime moves nothing about for it."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from deploy.models.graph_rewrites.attention import fuse_attention
from deploy.models.graph_rewrites.mask_in_keys import move_mask_into_keys
from services.inference.profiles import GRAPH
from tests.support.graphs import changed, how_many, run, scaled_otherwise, small_bert
from tests.support.models import CROSS_ENCODER, fetched


def whole(model):
    return changed(model, move_mask_into_keys, fuse_attention)


@pytest.mark.parametrize("shape", [(1, 1), (2, 12), (3, 7)])
def test_padding_stays_unseen(shape):
    model = small_bert()
    assert [how_many(whole(model), kind) for kind in ("MultiHeadAttention", "Softmax")] == [2, 0]
    np.testing.assert_allclose(run(whole(model), shape), run(model, shape), atol=1e-6)


def test_our_own_model_gives_the_same_scores():
    model = onnx.load(fetched(CROSS_ENCODER) / GRAPH)
    assert how_many(whole(model), "MultiHeadAttention") == 6
    for shape in ((1, 9), (4, 100), (2, 512)):
        np.testing.assert_allclose(run(whole(model), shape, 30000), run(model, shape, 30000), atol=2e-6)


def test_heads_are_not_transposed_to_be_transposed_back(tmp_path):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / GRAPH)
    onnxruntime.InferenceSession(whole(small_bert()).SerializeToString(), options)
    assert how_many(onnx.load(tmp_path / GRAPH), "Transpose") <= 1  # of the mask, once for all layers


def test_a_product_that_is_multiplied_or_not_scaled_at_all_is_rewritten_too():
    for model in scaled_otherwise():
        assert how_many(whole(model), "Softmax") == 0
        np.testing.assert_allclose(run(whole(model), (3, 7)), run(model, (3, 7)), atol=1e-5)


def test_a_mask_that_is_added_stays_and_what_it_is_added_to():
    model = small_bert()
    assert changed(model, fuse_attention) == model


def test_what_somebody_else_reads_stays():
    model = small_bert()
    model.graph.output.append(
        helper.make_tensor_value_info("encoder.layer.1.attention.shares", TensorProto.FLOAT, None)
    )
    assert [how_many(whole(model), kind) for kind in ("MultiHeadAttention", "Softmax")] == [1, 1]
