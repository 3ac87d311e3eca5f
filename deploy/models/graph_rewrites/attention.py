"""Fuses attention into one blocked operator of ONNX Runtime, whose [tokens, tokens] products stay in the CPU's cache.

`MultiHeadAttention` works on a CPU as FlashAttention (arXiv 2205.14135) does on a GPU, but only without a mask, so
mask_in_keys.py has to run before.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from deploy.models.graph_rewrites.graph_facts import (
    count_uses,
    find_product,
    infer_shapes,
    integer_attribute,
    producers_of,
    small_constants,
)
from deploy.models.graph_rewrites.node_replacement import MICROSOFT, replace_nodes

_FLAT = "attention.flat"


@dataclass(frozen=True, slots=True)
class _AttentionPattern:
    """softmax(queries x keys * scale) x values; [batch, heads, tokens, size], the keys [batch, heads, size, tokens]."""

    queries: str
    keys: str
    values: str
    scale: float
    heads: int

    @property
    def apart(self) -> str:
        """Name of the constant shape that splits the heads again."""
        return f"attention.{self.heads}_heads"


def fuse_attention(model: onnx.ModelProto) -> None:
    """Replaces each MatMul, Softmax and MatMul without a mask between them by one operator.

    Leaves a pattern as it is if its shapes are unknown or another node reads an intermediate value.
    """
    found = dict(_found(model))
    shapes = {one.apart: np.array([0, 0, one.heads, -1]) for one in found.values()} | {_FLAT: np.array([0, 0, -1])}
    replace_nodes(model, {name: list(_fused_nodes(one, name)) for name, one in found.items()}, shapes)


def _found(model: onnx.ModelProto) -> Iterator[tuple[str, _AttentionPattern]]:
    """Finds attention patterns, by the name of their output."""
    small, shapes, uses, producers = small_constants(model), infer_shapes(model), count_uses(model), producers_of(model)
    for mixed in model.graph.node:
        softmax = producers.get(mixed.input[0]) if mixed.op_type == "MatMul" else None
        if softmax is None or softmax.op_type != "Softmax" or integer_attribute(softmax, "axis", -1) not in (-1, 3):
            continue
        product = find_product(softmax.input[0], producers, small)
        if product is None or any(uses[name] != 1 for name in [*product.names, softmax.output[0]]):
            continue
        (queries, keys), values = product.node.input, mixed.input[1]
        given = [shapes.get(name, []) for name in (queries, keys, values)]
        heads = {shape[1] if len(shape) == 4 else None for shape in given}
        number = heads.pop()
        if number and not heads:
            yield mixed.output[0], _AttentionPattern(queries, keys, values, 1 / product.divisor, number)


def _fused_nodes(one: _AttentionPattern, output: str) -> Iterator[onnx.NodeProto]:
    """Builds the operator, and transposes its inputs to the layout it needs: [batch, tokens, heads * size].

    Usually that was their layout before the graph transposed them, and ONNX Runtime removes both transpositions.
    """
    orders = {
        "queries": (one.queries, [0, 2, 1, 3]),
        "keys": (one.keys, [0, 3, 1, 2]),
        "values": (one.values, [0, 2, 1, 3]),
    }
    for part, (value, order) in orders.items():
        yield helper.make_node("Transpose", [value], [f"{output}.{part}.side"], perm=order)
        yield helper.make_node("Reshape", [f"{output}.{part}.side", _FLAT], [f"{output}.{part}"])
    yield helper.make_node(
        "MultiHeadAttention",
        [f"{output}.{part}" for part in orders],
        [f"{output}.flat"],
        domain=MICROSOFT,
        num_heads=one.heads,
        scale=one.scale,
    )
    yield helper.make_node("Reshape", [f"{output}.flat", one.apart], [f"{output}.side"])
    yield helper.make_node("Transpose", [f"{output}.side"], [output], perm=[0, 2, 1, 3])
