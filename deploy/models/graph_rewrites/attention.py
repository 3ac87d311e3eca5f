"""Attention as one operation of ONNX Runtime, done in blocks: no product of all tokens with all leaves the cache.

`MultiHeadAttention` does on a CPU what FlashAttention (arXiv 2205.14135) does on a GPU, as long as it gets no mask: so
the mask must ride in the keys (mask_in_keys.py).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from deploy.models.graph_rewrites.graph_facts import (
    attribute,
    makers_of,
    product_behind,
    shapes_of,
    small_constants,
    uses_of,
)
from deploy.models.graph_rewrites.node_replacement import MICROSOFT, replace

_FLAT = "attention.flat"


@dataclass(frozen=True, slots=True)
class _Attention:
    """softmax(queries x keys * scale) x values; [batch, heads, tokens, size], the keys [batch, heads, size, tokens]."""

    queries: str
    keys: str
    values: str
    scale: float
    heads: int

    @property
    def apart(self) -> str:
        """The constant shape that takes the heads apart again."""
        return f"attention.{self.heads}_heads"


def attention(model: onnx.ModelProto) -> None:
    """Puts one operation in the place of each product, softmax and product between which nothing is added.

    Where shapes are not known, or somebody else reads what lies between, the graph stays as it is.
    """
    found = dict(_found(model))
    shapes = {one.apart: np.array([0, 0, one.heads, -1]) for one in found.values()} | {_FLAT: np.array([0, 0, -1])}
    replace(model, {name: list(_whole(one, name)) for name, one in found.items()}, shapes)


def _found(model: onnx.ModelProto) -> Iterator[tuple[str, _Attention]]:
    """By the name of what comes out of it."""
    small, shapes, uses, makers = small_constants(model), shapes_of(model), uses_of(model), makers_of(model)
    for mixed in model.graph.node:
        softmax = makers.get(mixed.input[0]) if mixed.op_type == "MatMul" else None
        if softmax is None or softmax.op_type != "Softmax" or attribute(softmax, "axis", -1) not in (-1, 3):
            continue
        product = product_behind(softmax.input[0], makers, small)
        if product is None or any(uses[name] != 1 for name in [*product.names, softmax.output[0]]):
            continue
        (queries, keys), values = product.node.input, mixed.input[1]
        given = [shapes.get(name, []) for name in (queries, keys, values)]
        heads = {shape[1] if len(shape) == 4 else None for shape in given}
        number = heads.pop()
        if number and not heads:
            yield mixed.output[0], _Attention(queries, keys, values, 1 / product.divisor, number)


def _whole(one: _Attention, output: str) -> Iterator[onnx.NodeProto]:
    """The operation, and its inputs as it wants them: [batch, tokens, heads * size].

    So they were before they were transposed, as a rule; ONNX Runtime takes both transpositions out.
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
