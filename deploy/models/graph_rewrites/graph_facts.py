"""What can be known of an ONNX graph before it runs: shapes, small constants, who reads what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | None]  # None: not known before a run
Small = Mapping[str, NDArray[np.generic]]

# Shapes, axes and factors are small; what is larger is a weight, and its values change nothing here.
_SMALL = 64


@dataclass(frozen=True, slots=True)
class Product:
    """A product of two values, and the node that divides it by one `divisor`, if there is one."""

    node: onnx.NodeProto
    scaled: onnx.NodeProto | None
    divisor: float

    @property
    def names(self) -> list[str]:
        """Of the product and of the quotient."""
        return [one.output[0] for one in (self.node, self.scaled) if one is not None]


def product_behind(name: str, makers: Mapping[str, onnx.NodeProto], small: Small) -> Product | None:
    """The product that `name` is, or is a constant part of; None when it is anything else."""
    node, scaled, divisor = makers.get(name), None, 1.0
    if node is not None and node.op_type in ("Div", "Mul") and node.input[1] in small:
        scaled, by = node, small[node.input[1]]
        if by.size != 1 or not by.any():
            return None
        node = makers.get(scaled.input[0])
        divisor = float(by.item()) if scaled.op_type == "Div" else 1 / float(by.item())
    return Product(node, scaled, divisor) if node is not None and node.op_type == "MatMul" else None


def makers_of(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The node that makes each value."""
    return {name: node for node in model.graph.node for name in node.output}


def small_constants(model: onnx.ModelProto) -> Small:
    """The values of the constants that say how the graph is put together, by name."""
    stored = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer if _size(one) <= _SMALL}
    return stored | {node.output[0]: _value(node) for node in model.graph.node if node.op_type == "Constant"}


def shapes_of(model: onnx.ModelProto) -> dict[str, Shape]:
    """What ONNX infers, from a copy without the weights; what it cannot infer is not there."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.graph.CopyFrom(onnx.GraphProto(name="shapes", node=model.graph.node, input=model.graph.input))
    shapes: dict[str, Shape] = {}
    for tensor in model.graph.initializer:
        shapes[tensor.name] = list(tensor.dims)
        if _size(tensor) <= _SMALL:
            light.graph.initializer.append(tensor)
        else:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    for one in onnx.shape_inference.infer_shapes(light, data_prop=True).graph.value_info:
        if one.type.tensor_type.HasField("shape"):
            dimensions = one.type.tensor_type.shape.dim
            shapes[one.name] = [dim.dim_value if dim.HasField("dim_value") else None for dim in dimensions]
    return shapes


def uses_of(model: onnx.ModelProto) -> Counter[str]:
    """How often each value is read, as an output of the graph too."""
    read = Counter(name for node in model.graph.node for name in node.input)
    return read + Counter(one.name for one in model.graph.output)


def attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    """A whole number that `node` declares, or what it is without."""
    return next((int(one.i) for one in node.attribute if one.name == name), default)


def _size(tensor: onnx.TensorProto) -> int:
    return int(np.prod(tensor.dims, dtype=np.int64))


def _value(node: onnx.NodeProto) -> NDArray[np.generic]:
    return numpy_helper.to_array(next((one.t for one in node.attribute if one.name == "value"), TensorProto()))
