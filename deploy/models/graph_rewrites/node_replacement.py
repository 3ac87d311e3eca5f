"""Replaces nodes of an ONNX graph in place and removes unused ones. What to replace is left to the rewrites."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

# The domain of ONNX Runtime's own operators (github.com/microsoft/onnxruntime, docs/ContribOperators.md).
MICROSOFT = "com.microsoft"


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
    read = {one.name for one in model.graph.output}
    kept: list[onnx.NodeProto] = []
    for node in reversed(nodes):
        if read.intersection(node.output):
            read.update(node.input)
            kept.append(node)
    stored = [*model.graph.initializer, *(numpy_helper.from_array(value, name) for name, value in constants.items())]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(reversed(kept))
    model.graph.initializer.extend(tensor for tensor in stored if tensor.name in read)
    known = {one.domain for one in model.opset_import}
    if MICROSOFT not in known and any(node.domain == MICROSOFT for node in kept):
        model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))
