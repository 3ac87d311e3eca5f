"""How an ONNX graph is changed in place before it runs."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

# The domain of ONNX Runtime's own operators (github.com/microsoft/onnxruntime, docs/ContribOperators.md).
MICROSOFT = "com.microsoft"


def replace(
    model: onnx.ModelProto,
    made: Mapping[str, Sequence[onnx.NodeProto]],
    constants: Mapping[str, NDArray[np.generic]],
) -> None:
    """Puts `made` where each of these values came from, and `constants` beside; what nobody reads then is left out.

    Nothing changes when `made` is empty.
    """
    if not made:
        return
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        names = [name for name in node.output if name in made]
        nodes += [new for name in names for new in made[name]] if names else [node]
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
