"""Checks that static int8 products are fused with their bias, and that scores are equal to the bit."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploy.models.graph_rewrites.first_token import prune_to_first_token
from deploy.models.graph_rewrites.int8_products import fuse_int8_bias
from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import GRAPH, TOKENIZER
from tests.support.graphs import answer, changed, how_many, run, session_of
from tests.support.models import CROSS_ENCODER, fetched
from workshop.training.quantise import to_static_int8, with_fp32_weights

FUSED = "MatMulIntegerToFloat"
MATRIX = "encoder.layer.0.output.dense.weight"


def store(model, values):
    """Replaces stored values by name."""
    kept = [one for one in model.graph.initializer if one.name not in values]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, *(numpy_helper.from_array(one, name) for name, one in values.items())])


@pytest.fixture(scope="module")
def model():
    """Quantises our own model to static int8, with scales from a few pairs."""
    tokens = ModelTokenizer(fetched(CROSS_ENCODER) / TOKENIZER, 64)
    query, *texts = tokens.ids(["a chain that slips", "worn teeth let it skip", "spokes", "a new saddle post"])
    whole = with_fp32_weights(onnx.load(fetched(CROSS_ENCODER) / GRAPH))
    return to_static_int8(whole, [tokens.pair(query, text) for text in texts])


def test_scores_are_equal_to_the_bit(model):
    fused = changed(model, fuse_int8_bias)
    assert how_many(fused, FUSED) == 36
    rewritten, whole = session_of(fused, {}), session_of(model, {})
    for shape in ((1, 3), (3, 40)):
        np.testing.assert_array_equal(answer(rewritten, shape)[0], answer(whole, shape)[0])


def test_a_bias_that_is_the_first_input_is_fused_too(model):
    def turned(copy):
        for node in copy.graph.node:
            if node.op_type == "Add" and node.input[0].endswith(".product"):
                node.input[:] = reversed(node.input)

    assert how_many(changed(model, turned, fuse_int8_bias), FUSED) == 36


def test_a_product_of_a_sliced_activation_stays(model):
    """The queries of the last layer have a Slice between the activation and the product."""
    assert how_many(changed(model, prune_to_first_token, fuse_int8_bias), FUSED) == 35


def test_a_product_that_another_node_reads_stays(model):
    def read(copy):
        name = "encoder.layer.0.intermediate.dense.product"
        copy.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    assert how_many(changed(model, read, fuse_int8_bias), FUSED) == 35


def test_a_matrix_with_a_scale_for_each_row_stays(model):
    def by_row(copy):
        (node,) = [one for one in copy.graph.node if one.output[0] == f"{MATRIX}.near"]
        (axis,) = node.attribute
        axis.i = 0
        store(copy, {node.input[1]: np.ones(1536, dtype=np.float32), node.input[2]: np.zeros(1536, dtype=np.int8)})

    assert how_many(changed(model, by_row, fuse_int8_bias), FUSED) == 35


def test_a_zero_point_is_kept_unless_it_is_0(model):
    def moved(copy):
        store(copy, {f"{MATRIX}.zero": np.full(384, 3, dtype=np.int8)})

    fused = changed(model, moved, fuse_int8_bias)
    zeros = [node.input[5] for node in fused.graph.node if node.op_type == FUSED]
    assert (zeros.count(""), zeros.count(f"{MATRIX}.zero")) == (35, 1)
    np.testing.assert_array_equal(run(fused, (4, 20), 30000, {}), run(changed(model, moved), (4, 20), 30000, {}))


def test_products_in_fp32_stay():
    model = onnx.load(fetched(CROSS_ENCODER) / GRAPH)
    assert changed(model, fuse_int8_bias) == model
