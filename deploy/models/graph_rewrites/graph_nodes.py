"""Analyses an ONNX graph without running it, and replaces nodes of it in place. The rewrites decide which."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | None]  # None: not known before a run
Small = Mapping[str, NDArray[np.generic]]

# The domain of ONNX Runtime's own operators (github.com/microsoft/onnxruntime, docs/ContribOperators.md).
MICROSOFT = "com.microsoft"
# Shapes, axes and factors are smaller; anything larger is a weight, whose values no rewrite reads.
_MAX_SMALL = 64


@dataclass(frozen=True, slots=True)
class ScaledProduct:
    """A MatMul node, and the node that divides its output by the number `divisor`, if there is one."""

    node: onnx.NodeProto
    scaled: onnx.NodeProto | None
    divisor: float

    @property
    def names(self) -> list[str]:
        """Output names of the product and of the division."""
        return [node.output[0] for node in (self.node, self.scaled) if node is not None]


def find_product(name: str, producers: Mapping[str, onnx.NodeProto], small: Small) -> ScaledProduct | None:
    """Returns the MatMul behind the value `name`, with or without a constant factor; None for anything else."""
    node, scaled, divisor = producers.get(name), None, 1.0
    if node is not None and node.op_type in ("Div", "Mul") and node.input[1] in small:
        scaled, by = node, small[node.input[1]]
        if by.size != 1 or not by.any():
            return None
        node = producers.get(scaled.input[0])
        divisor = float(by.item()) if scaled.op_type == "Div" else 1 / float(by.item())
    return ScaledProduct(node, scaled, divisor) if node is not None and node.op_type == "MatMul" else None


def producers_of(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """Maps each value to the node that computes it."""
    return {name: node for node in model.graph.node for name in node.output}


def small_constants(model: onnx.ModelProto) -> Small:
    """Returns the values of small constants (shapes, axes, factors) by name."""
    stored = {
        tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer if _size(tensor) <= _MAX_SMALL
    }
    return stored | {node.output[0]: _value(node) for node in model.graph.node if node.op_type == "Constant"}


def infer_shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """Infers the shapes of values, on a copy without the weights; omits values whose shape ONNX cannot infer."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.graph.CopyFrom(onnx.GraphProto(name="shapes", node=model.graph.node, input=model.graph.input))
    shapes: dict[str, Shape] = {}
    for tensor in model.graph.initializer:
        shapes[tensor.name] = list(tensor.dims)
        if _size(tensor) <= _MAX_SMALL:
            light.graph.initializer.append(tensor)
        else:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    for one in onnx.shape_inference.infer_shapes(light, data_prop=True).graph.value_info:
        if one.type.tensor_type.HasField("shape"):
            dimensions = one.type.tensor_type.shape.dim
            shapes[one.name] = [dim.dim_value if dim.HasField("dim_value") else None for dim in dimensions]
    return shapes


def count_uses(model: onnx.ModelProto) -> Counter[str]:
    """Counts how often each value is read, by nodes and as an output of the graph."""
    read = Counter(name for node in model.graph.node for name in node.input)
    return read + Counter(output.name for output in model.graph.output)


def integer_attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    """Returns an integer attribute of `node`, or `default` when it is not set."""
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == name), default)


def replace_nodes(
    model: onnx.ModelProto,
    new_nodes: Mapping[str, Sequence[onnx.NodeProto]],
    constants: Mapping[str, NDArray[np.generic]],
) -> None:
    """Replaces the node that computes each key of `new_nodes`, adds `constants`, and removes nodes that become unused.

    Changes nothing when `new_nodes` is empty.
    """
    if not new_nodes:
        return
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        names = [name for name in node.output if name in new_nodes]
        nodes += [new for name in names for new in new_nodes[name]] if names else [node]
    read = {output.name for output in model.graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if read.intersection(node.output):
            read.update(node.input)
            kept.append(node)
    stored = [*model.graph.initializer, *(numpy_helper.from_array(value, name) for name, value in constants.items())]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(reversed(kept))
    model.graph.initializer.extend(tensor for tensor in stored if tensor.name in read)
    known = {opset.domain for opset in model.opset_import}
    if MICROSOFT not in known and any(node.domain == MICROSOFT for node in kept):
        model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))


def _size(tensor: onnx.TensorProto) -> int:
    return int(np.prod(tensor.dims, dtype=np.int64))


def _value(node: onnx.NodeProto) -> NDArray[np.generic]:
    return numpy_helper.to_array(
        next((attribute.t for attribute in node.attribute if attribute.name == "value"), TensorProto())
    )
