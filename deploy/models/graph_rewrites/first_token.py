"""Prunes the last layer of a cross-encoder to the first token, the only one that the score is computed from.

For the other tokens the last layer then computes keys and values only, which saves a seventh of the work of six layers.
Scores are unchanged.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from deploy.models.graph_rewrites.graph_nodes import (
    Shape,
    Small,
    count_uses,
    infer_shapes,
    integer_attribute,
    small_constants,
)

# (place of an input, axis to slice)
Cut = tuple[int, int]

_ELEMENTWISE = {"Identity", "Erf", "Tanh", "Sqrt", "Relu", "Cast", "Gelu", "QuantizeLinear", "DequantizeLinear"}
_BROADCAST = {"Add", "Sub", "Mul", "Div", "Pow"}


def prune_to_first_token(model: onnx.ModelProto) -> None:
    """Slices values of the last layer to the first token; changes nothing where other tokens may be read.

    Starts at a Gather of index 0 along axis 1 and goes backwards through every operation whose result for a token
    depends on that token alone, up to the operations that need all tokens: the keys and values of the last layer.
    """
    nodes, small = model.graph.node, small_constants(model)
    picks = [node for node in nodes if _gathers_first_token(node, small)]
    shapes = infer_shapes(model) if picks else {}
    requested: dict[str, Counter[int]] = defaultdict(Counter)
    uses = count_uses(model)
    shortened: list[tuple[onnx.NodeProto, Sequence[Cut]]] = []
    for node in reversed(nodes):
        cuts = _cuts(node, requested, uses, shapes, small) if node not in picks else [(0, 1)]
        shortened += [(node, cuts)] if cuts else []
        for place, axis in cuts:
            requested[node.input[place]][axis] += 1
    if len(shortened) == len(picks):
        return
    inside = {name for node, _ in shortened for name in node.output}
    slices: dict[str, onnx.NodeProto] = {}
    for node, cuts in shortened:
        for place, axis in cuts:
            whole = node.input[place]
            if whole not in inside:
                node.input[place] = f"{whole}.first_token_of_{axis}"
                slices[node.input[place]] = _slice(whole, axis, node.input[place])
    _insert_slices(model, slices)


def _cuts(
    node: onnx.NodeProto,
    requested: Mapping[str, Counter[int]],
    uses: Mapping[str, int],
    shapes: Mapping[str, Shape],
    small: Small,
) -> Sequence[Cut]:
    """Returns which inputs to slice so that the node computes the first token alone; empty when all are needed."""
    out = node.output[0]
    wanted = requested.get(out, Counter())
    if len(node.output) != 1 or len(wanted) != 1 or wanted.total() != uses[out]:
        return []  # another node reads all of it, or slices another axis
    known = [shapes.get(name) for name in [out, *node.input]]
    if any(shape is None for shape in known):
        return []
    output, *inputs = [shape for shape in known if shape is not None]
    ((axis, _),) = wanted.items()
    last = len(output) - 1
    if node.op_type in _BROADCAST:
        return _broadcast_cuts(axis, output, inputs)
    if node.op_type in _ELEMENTWISE and all(len(shape) == 0 for shape in inputs[1:]):
        return [(0, axis)]
    if (
        node.op_type in ("LayerNormalization", "Softmax")
        and integer_attribute(node, "axis", -1) in (-1, last)
        and axis < last
    ):
        return [(0, axis)]
    if node.op_type == "MatMul" and axis == last - 1 and len(inputs[0]) == len(output):
        return [(0, axis)]
    if node.op_type == "Transpose":
        order = next((one.ints for one in node.attribute if one.name == "perm"), range(last, -1, -1))
        return [(0, order[axis])]
    if node.op_type == "Reshape" and node.input[1] in small:
        shape = small[node.input[1]].tolist()
        # A zero copies the input's dimension, so that up to the axis the layout is unchanged.
        return [(0, axis)] if not any(shape[: axis + 1]) and not integer_attribute(node, "allowzero", 0) else []
    return []


def _broadcast_cuts(axis: int, output: Shape, inputs: Sequence[Shape]) -> Sequence[Cut]:
    """Returns cuts of a broadcast: dimensions match from the last one backwards, and those of size 1 need none."""
    places = [(place, axis - (len(output) - len(shape))) for place, shape in enumerate(inputs)]
    return [(place, own) for place, own in places if own >= 0 and inputs[place][own] != 1]


def _gathers_first_token(node: onnx.NodeProto, small: Small) -> bool:
    if node.op_type != "Gather" or integer_attribute(node, "axis", 0) != 1:
        return False
    index = small.get(node.input[1])
    return index is not None and index.tolist() == 0


def _slice(whole: str, axis: int, output: str) -> onnx.NodeProto:
    return helper.make_node("Slice", [whole, "slice_at_0", "slice_at_1", f"slice_at_{axis}"], [output], name=output)


def _insert_slices(model: onnx.ModelProto, slices: Mapping[str, onnx.NodeProto]) -> None:
    """Inserts each Slice before the first node that reads it, so that nodes stay in topological order."""
    left = dict(slices)
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes += [left.pop(name) for name in dict.fromkeys(node.input) if name in left]
        nodes.append(node)
    for name in sorted({name for one in slices.values() for name in one.input[1:]}):
        number = np.array([int(name.removeprefix("slice_at_"))], dtype=np.int64)
        model.graph.initializer.append(numpy_helper.from_array(number, name))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
