"""A product in static int8 and its bias are one operation, which adds the bias where it turns its sums into fp32.

ONNX Runtime by itself fuses the product alone and adds the bias in a pass of its own. Not a bit of a product changes.
"""

from collections.abc import Mapping

import onnx
from onnx import helper, numpy_helper

from deploy.models.graph_rewrites.graph_facts import attribute, makers_of, uses_of
from deploy.models.graph_rewrites.node_replacement import MICROSOFT, replace

Stored = Mapping[str, onnx.TensorProto]


def int8_products(model: onnx.ModelProto) -> None:
    """Rewrites each sum of a stored bias and a product of an int8 activation, one scale for all, and an int8 matrix.

    Where one of them is anything else, or somebody reads the product without its bias, the graph stays as it is.
    """
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    makers, uses = makers_of(model), uses_of(model)
    made: dict[str, list[onnx.NodeProto]] = {}
    for add in (node for node in model.graph.node if node.op_type == "Add"):
        for name, bias in (add.input, reversed(add.input)):
            product = makers.get(name)
            if product is None or product.op_type != "MatMul" or uses[name] != 1 or _rank(bias, stored) != 1:
                continue
            given, matrix = (makers.get(each) for each in product.input)
            if given is not None and matrix is not None and _activation(given, stored) and _matrix(matrix, stored):
                inputs = [name for pair in zip(given.input, matrix.input, strict=True) for name in pair]
                if not numpy_helper.to_array(stored[inputs[-1]]).any():
                    inputs[-1] = ""  # no zero point costs a hundredth less than zeros
                node = helper.make_node("MatMulIntegerToFloat", [*inputs, bias], [add.output[0]], domain=MICROSOFT)
                made[add.output[0]] = [node]
    replace(model, made, {})


def _activation(node: onnx.NodeProto, stored: Stored) -> bool:
    return _rounded(node) and all(_rank(name, stored) == 0 for name in node.input[1:])


def _matrix(node: onnx.NodeProto, stored: Stored) -> bool:
    """[in, out], one scale for all or one a column."""
    if not _rounded(node) or [_rank(name, stored) for name in node.input] not in ([2, 0, 0], [2, 1, 1]):
        return False
    return _rank(node.input[1], stored) == 0 or attribute(node, "axis", 1) in (1, -1)


def _rounded(node: onnx.NodeProto) -> bool:
    return node.op_type == "DequantizeLinear" and len(node.input) == 3


def _rank(name: str, stored: Stored) -> int | None:
    """None: not a stored value."""
    return len(stored[name].dims) if name in stored else None
