"""A cross-encoder reads the first token of its last layer: what becomes of the others there need not be computed.

Their part of the last layer is most of it (all but keys and values), a seventh of the work of six layers. Scores stay
what they were; peers compute it all.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from deploy.models.graph_rewrites.graph_facts import Shape, Small, attribute, shapes_of, small_constants, uses_of

# (which input, which of its axes)
Cut = tuple[int, int]

_ONE_BY_ONE = {"Identity", "Erf", "Tanh", "Sqrt", "Relu", "Cast", "Gelu", "QuantizeLinear", "DequantizeLinear"}
_BROADCAST = {"Add", "Sub", "Mul", "Div", "Pow"}


def first_token_only(model: onnx.ModelProto) -> None:
    """Takes out of the graph the work on tokens of the last layer that nobody reads; where that is unclear, nothing.

    It begins where one token is picked, a Gather of index 0 along axis 1, and goes up through every operation whose
    result for a token needs that token alone, until all of them are needed: the keys and values of the last layer.
    """
    nodes, small = model.graph.node, small_constants(model)
    picks = [node for node in nodes if _picks_the_first(node, small)]
    shapes = shapes_of(model) if picks else {}
    asked: dict[str, Counter[int]] = defaultdict(Counter)
    uses = uses_of(model)
    shortened: list[tuple[onnx.NodeProto, Sequence[Cut]]] = []
    for node in reversed(nodes):
        cuts = _cuts(node, asked, uses, shapes, small) if node not in picks else [(0, 1)]
        shortened += [(node, cuts)] if cuts else []
        for place, axis in cuts:
            asked[node.input[place]][axis] += 1
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
    _insert(model, slices)


def _cuts(
    node: onnx.NodeProto,
    asked: Mapping[str, Counter[int]],
    uses: Mapping[str, int],
    shapes: Mapping[str, Shape],
    small: Small,
) -> Sequence[Cut]:
    """What must be cut of its inputs so that it makes the first token alone; nothing when it makes all of them."""
    out = node.output[0]
    wanted = asked.get(out, Counter())
    if len(node.output) != 1 or len(wanted) != 1 or wanted.total() != uses[out]:
        return []  # somebody needs it whole, or along another axis
    known = [shapes.get(name) for name in [out, *node.input]]
    if any(shape is None for shape in known):
        return []
    made, *given = [shape for shape in known if shape is not None]
    ((axis, _),) = wanted.items()
    last = len(made) - 1
    if node.op_type in _BROADCAST:
        return _of_broadcast(axis, made, given)
    if node.op_type in _ONE_BY_ONE and all(len(shape) == 0 for shape in given[1:]):
        return [(0, axis)]
    if node.op_type in ("LayerNormalization", "Softmax") and attribute(node, "axis", -1) in (-1, last) and axis < last:
        return [(0, axis)]
    if node.op_type == "MatMul" and axis == last - 1 and len(given[0]) == len(made):
        return [(0, axis)]
    if node.op_type == "Transpose":
        order = next((one.ints for one in node.attribute if one.name == "perm"), range(last, -1, -1))
        return [(0, order[axis])]
    if node.op_type == "Reshape" and node.input[1] in small:
        shape = small[node.input[1]].tolist()
        # A zero keeps the dimension of the same place, so up to the axis nothing is moved.
        return [(0, axis)] if not any(shape[: axis + 1]) and not attribute(node, "allowzero", 0) else []
    return []


def _of_broadcast(axis: int, made: Shape, given: Sequence[Shape]) -> Sequence[Cut]:
    """Dimensions are matched from the last one backwards; what has one place there already stays."""
    places = [(place, axis - (len(made) - len(shape))) for place, shape in enumerate(given)]
    return [(place, own) for place, own in places if own >= 0 and given[place][own] != 1]


def _picks_the_first(node: onnx.NodeProto, small: Small) -> bool:
    if node.op_type != "Gather" or attribute(node, "axis", 0) != 1:
        return False
    index = small.get(node.input[1])
    return index is not None and index.tolist() == 0


def _slice(whole: str, axis: int, output: str) -> onnx.NodeProto:
    return helper.make_node("Slice", [whole, "slice_at_0", "slice_at_1", f"slice_at_{axis}"], [output], name=output)


def _insert(model: onnx.ModelProto, slices: Mapping[str, onnx.NodeProto]) -> None:
    """Each Slice before the first node that reads it, so that the order stays topological."""
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
