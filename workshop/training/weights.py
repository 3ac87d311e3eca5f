"""Reads the weights of a BERT from an ONNX file, by their names in transformers."""

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

Weights = dict[str, NDArray[np.float32]]


def read_weights(graph_file: Path) -> Weights:
    """Returns fp32 tensors, linear ones as [out, in]; int8 weights are dequantised.

    Reads the graphs of deploy/models/bert_graph.py and torch's exports of transformers, whose linear weights have lost
    their names: these are taken from the node that uses them.
    """
    graph = onnx.load(graph_file).graph
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "DequantizeLinear":
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
            tensors[node.output[0]] = _dequantised(tensors[node.input[0]], tensors[node.input[1]], axis)
        elif node.op_type == "Mul" and all(name in tensors for name in node.input):
            tensors[node.output[0]] = tensors[node.input[0]] * tensors[node.input[1]]
    weights: Weights = {}
    for node in graph.node:
        for place, value in enumerate(node.input):
            if value not in tensors or tensors[value].dtype != np.float32 or tensors[value].ndim == 0:
                continue
            if node.op_type == "MatMul":
                # `/m/bert/encoder/layer.0/attention/self/query/MatMul` names a weight with dots.
                named = node.name.removeprefix("/m/").removesuffix("/MatMul").replace("/", ".") + ".weight"
                name = value if value.endswith(".weight") else named
                weights[_bare(name)] = np.ascontiguousarray(tensors[value].T)
            elif node.op_type == "Gemm" and place == 1:
                weights[_bare(value)] = tensors[value]
            elif value.endswith((".weight", ".bias")):
                weights.setdefault(_bare(value), tensors[value])
    return weights


def _dequantised(values: NDArray[np.int8], scale: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    shape = [1] * values.ndim
    shape[axis] = -1
    return values.astype(np.float32) * scale.reshape(shape)


def _bare(name: str) -> str:
    return name.removeprefix("m.").removeprefix("bert.")
