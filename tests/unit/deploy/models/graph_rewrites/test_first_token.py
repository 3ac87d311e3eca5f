"""Checks that the last layer computes only the first token where possible, and that scores are unchanged."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from deploy.models.graph_rewrites.first_token import prune_to_first_token
from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import GRAPH, TOKENIZER
from tests.support.graphs import answer, changed, session_of, small_bert
from tests.support.models import CROSS_ENCODER, fetched, node
from workshop.training.quantise import to_static_int8, with_fp32_weights

LAST, BEFORE = "encoder.layer.1", "encoder.layer.0"
WORK = ["attention.self.query", "attention.output.dense", "intermediate.dense", "output.dense"]


def small(*pick: onnx.NodeProto, outputs: tuple[str, ...] = ("logits",)) -> onnx.ModelProto:
    """Builds a BERT of two layers that ends in `pick`, which reads `last_hidden_state`."""
    model = small_bert()
    model.graph.initializer.append(numpy_helper.from_array(np.array(0, dtype=np.int64), "first"))
    model.graph.node.extend(pick)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs)
    return model


def first(output: str = "logits") -> onnx.NodeProto:
    return node("Gather", ["last_hidden_state", "first"], output, axis=1)


def pruned(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a pruned copy."""
    return changed(model, prune_to_first_token)


def telling(model: onnx.ModelProto, *also: str) -> onnxruntime.InferenceSession:
    """Opens a copy whose outputs are also the values named in `also`."""
    more = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in also]
    return session_of(changed(model, lambda copy: copy.graph.output.extend(more)))


def run(model: onnx.ModelProto, shape: tuple[int, int], *also: str):
    """Returns the outputs of `model` and the values named in `also`."""
    return answer(telling(model, *also), shape, 20)


@pytest.mark.parametrize("shape", [(1, 1), (1, 12), (3, 7)])
def test_only_the_last_layer_is_pruned_to_one_token_a_row(shape):
    whole = small(first())
    cut = pruned(whole)
    names = [f"{layer}.{part}.product" for layer in (BEFORE, LAST) for part in [*WORK[1:], "attention.self.key"]]
    if shape[1] > 1:
        seen = dict(zip(names, run(cut, shape, *names)[1:], strict=True))
        assert {name: value.shape[1] for name, value in seen.items()} == {
            name: 1 if name.startswith(LAST) and "key" not in name else shape[1] for name in names
        }
    np.testing.assert_allclose(run(cut, shape)[0], run(whole, shape)[0], atol=1e-6)


def test_an_export_that_computes_shapes_is_pruned_below_them():
    """torch's tracer computes the shape before a Reshape; everything before that stays."""
    model = small(first())
    (joined,) = [one for one in model.graph.node if one.output[0] == f"{LAST}.attention.joined"]
    at = list(model.graph.node).index(joined)
    nodes = [
        node("Shape", [joined.input[0]], "traced", end=2),
        node("Concat", ["traced", "width"], "traced.joined", axis=0),
    ]
    model.graph.initializer.append(numpy_helper.from_array(np.array([8], dtype=np.int64), "width"))
    joined.input[1] = "traced.joined"
    rest = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*rest[:at], *nodes, *rest[at:]])
    whole, cut = model, pruned(model)
    names = [f"{LAST}.{part}.product" for part in WORK]
    score, *seen = run(cut, (3, 7), *names)
    assert [value.shape[1] for value in seen] == [7, 1, 1, 1]
    np.testing.assert_allclose(score, run(whole, (3, 7))[0], atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        small(node("ReduceMean", ["last_hidden_state"], "logits", axes=[1])),
        small(first(), outputs=("logits", "last_hidden_state")),
        small(first(), node("ReduceMax", ["last_hidden_state"], "all", axes=[1]), outputs=("logits", "all")),
        small(node("Gather", ["last_hidden_state", "first"], "logits", axis=2)),
    ],
    ids=["mean", "output", "second reader", "another axis"],
)
def test_a_graph_that_reads_all_tokens_stays_as_it_is(model):
    assert pruned(model) == model


@pytest.mark.parametrize("precision", ["int8-weights", "int8-static"])
def test_our_own_model_gives_the_same_scores(precision):
    model = onnx.load(fetched(CROSS_ENCODER) / GRAPH)
    if precision == "int8-static":
        tokens = ModelTokenizer(fetched(CROSS_ENCODER) / TOKENIZER, 64)
        query, *texts = tokens.ids(["a chain that slips", "worn teeth let it skip", "spokes", "a new saddle post"])
        model = to_static_int8(with_fp32_weights(model), [tokens.pair(query, text) for text in texts])
    whole, cut = session_of(model), telling(pruned(model), "encoder.layer.5.intermediate.dense.product")
    for shape in ((1, 3), (3, 40)):
        score, product = answer(cut, shape)
        assert product.shape[1] == 1
        np.testing.assert_allclose(score, answer(whole, shape)[0], atol=1e-5)
