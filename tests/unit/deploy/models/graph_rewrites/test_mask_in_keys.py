"""Checks that the mask is moved into the keys, that no Add of a mask is left, and that scores are unchanged."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploy.models.graph_rewrites.attention import move_mask_into_keys
from services.inference.profiles import GRAPH
from tests.support.graphs import answer, changed, run, scaled_otherwise, session_of, small_bert
from tests.support.models import CROSS_ENCODER, fetched


def rewritten(model: onnx.ModelProto) -> onnx.ModelProto:
    return changed(model, move_mask_into_keys)


def adds_of_masks(model: onnx.ModelProto) -> int:
    return sum(node.op_type == "Add" and "mask.added" in node.input for node in model.graph.node)


@pytest.mark.parametrize("shape", [(1, 1), (2, 12), (3, 7)])
def test_padding_stays_masked(shape):
    model = small_bert()
    assert (adds_of_masks(model), adds_of_masks(rewritten(model))) == (2, 0)
    np.testing.assert_allclose(run(rewritten(model), shape), run(model, shape), atol=1e-6)


def test_our_own_model_gives_the_same_scores():
    model = onnx.load(fetched(CROSS_ENCODER) / GRAPH)
    assert (adds_of_masks(model), adds_of_masks(rewritten(model))) == (6, 0)
    whole, changed_one = session_of(model), session_of(rewritten(model))
    for shape in ((1, 9), (3, 40)):
        np.testing.assert_allclose(answer(changed_one, shape)[0], answer(whole, shape)[0], atol=1e-6)


def test_products_that_are_multiplied_or_not_scaled_are_rewritten_too():
    for model in scaled_otherwise():
        assert adds_of_masks(rewritten(model)) == 0
        np.testing.assert_allclose(run(rewritten(model), (3, 7)), run(model, (3, 7)), atol=1e-5)


def test_a_value_that_another_node_reads_stays():
    model = small_bert()
    model.graph.output.append(
        helper.make_tensor_value_info("encoder.layer.1.attention.likeness", TensorProto.FLOAT, None)
    )
    assert adds_of_masks(rewritten(model)) == 1


def test_a_mask_per_query_token_stays():
    model = small_bert()
    for node in model.graph.node:
        if "mask.added" in node.input:
            node.input[1] = "by_token"
    model.graph.initializer.append(numpy_helper.from_array(np.zeros((1, 1, 5, 5), dtype=np.float32), "by_token"))
    assert rewritten(model) == model
