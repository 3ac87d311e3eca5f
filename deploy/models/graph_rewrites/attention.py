"""Fuses attention into one blocked operator of ONNX Runtime, whose [tokens, tokens] products stay in the CPU's cache.

`MultiHeadAttention` works on a CPU as FlashAttention (arXiv 2205.14135) does on a GPU, but only without a mask. So the
mask moves into the keys first: a column of ones is appended to the queries, and the mask as a row to the keys. Their
product then includes it, which saves the pass that adds it to [batch, heads, tokens, tokens], the largest value of the
graph. In ONNX Runtime our scores stayed equal to the bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from deploy.models.graph_rewrites.graph_nodes import (
    MICROSOFT,
    ScaledProduct,
    count_uses,
    find_product,
    infer_shapes,
    integer_attribute,
    producers_of,
    replace_nodes,
    small_constants,
)

_FLAT = "attention.flat"


@dataclass(frozen=True, slots=True)
class _MaskedProduct:
    """The `product` of queries and keys, scaled or not, plus `mask`."""

    product: ScaledProduct
    mask: str
    heads: int

    @property
    def row(self) -> str:
        """Name of the mask as a row of the keys, [batch, heads, 1, tokens]."""
        return f"{self.mask}.times_{self.product.divisor:g}.row"


def move_mask_into_keys(model: onnx.ModelProto) -> None:
    """Rewrites each Softmax(queries x keys / factor + mask) whose mask is one row for all heads and queries.

    Leaves a pattern as it is if its shapes are unknown or another node reads an intermediate value.
    """
    found = dict(_masked_products(model))
    new_nodes: dict[str, list[onnx.NodeProto]] = {}
    rows: dict[str, _MaskedProduct] = {}
    for name, pattern in found.items():
        new_nodes[name] = [*([] if pattern.row in rows else _mask_row_nodes(pattern)), *_product_nodes(pattern, name)]
        rows[pattern.row] = pattern
    constants = {"ones.pads": np.array([0, 0, 0, 0, 0, 0, 0, 1]), "ones.value": np.array(1, dtype=np.float32)}
    for row, pattern in rows.items():
        constants[f"{row}.factor"] = np.array(pattern.product.divisor, dtype=np.float32)
        constants[f"{row}.heads"] = np.array([1, pattern.heads, 1, 1])
    replace_nodes(model, new_nodes, constants)


def _masked_products(model: onnx.ModelProto) -> Iterator[tuple[str, _MaskedProduct]]:
    """Finds masked products, by the name of their output."""
    small, shapes, uses, producers = small_constants(model), infer_shapes(model), count_uses(model), producers_of(model)
    for softmax in model.graph.node:
        added = producers.get(softmax.input[0]) if softmax.op_type == "Softmax" else None
        if added is None or added.op_type != "Add" or integer_attribute(softmax, "axis", -1) not in (-1, 3):
            continue
        product = find_product(added.input[0], producers, small)
        if product is None:
            continue
        queries, mask = shapes.get(product.node.input[0], []), shapes.get(added.input[1], [])
        read_once = all(uses[name] == 1 for name in [*product.names, added.output[0]])
        if read_once and len(queries) == len(mask) == 4 and mask[1] == mask[2] == 1 and queries[1]:
            yield added.output[0], _MaskedProduct(product, added.input[1], queries[1])


def _mask_row_nodes(pattern: _MaskedProduct) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Mul", [pattern.mask, f"{pattern.row}.factor"], [f"{pattern.row}.wide"]),
        helper.make_node("Tile", [f"{pattern.row}.wide", f"{pattern.row}.heads"], [pattern.row]),
    ]


def _product_nodes(pattern: _MaskedProduct, output: str) -> Iterator[onnx.NodeProto]:
    """Builds the product of the longer queries and keys, under the name of the masked product that it replaces."""
    queries, keys = pattern.product.node.input
    wider, longer, scaled = f"{output}.queries", f"{output}.keys", pattern.product.scaled
    yield helper.make_node("Pad", [queries, "ones.pads", "ones.value"], [wider])
    yield helper.make_node("Concat", [keys, pattern.row], [longer], axis=2)
    if scaled is None:
        yield helper.make_node("MatMul", [wider, longer], [output])
        return
    yield helper.make_node("MatMul", [wider, longer], [f"{output}.product"])
    yield helper.make_node(scaled.op_type, [f"{output}.product", scaled.input[1]], [output])


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
    found = dict(_attention_patterns(model))
    shapes = {pattern.apart: np.array([0, 0, pattern.heads, -1]) for pattern in found.values()} | {
        _FLAT: np.array([0, 0, -1])
    }
    replace_nodes(model, {name: list(_fused_nodes(pattern, name)) for name, pattern in found.items()}, shapes)


def _attention_patterns(model: onnx.ModelProto) -> Iterator[tuple[str, _AttentionPattern]]:
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


def _fused_nodes(pattern: _AttentionPattern, output: str) -> Iterator[onnx.NodeProto]:
    """Builds the operator, and transposes its inputs to the layout it needs: [batch, tokens, heads * size].

    Usually that was their layout before the graph transposed them, and ONNX Runtime removes both transpositions.
    """
    orders = {
        "queries": (pattern.queries, [0, 2, 1, 3]),
        "keys": (pattern.keys, [0, 3, 1, 2]),
        "values": (pattern.values, [0, 2, 1, 3]),
    }
    for part, (value, order) in orders.items():
        yield helper.make_node("Transpose", [value], [f"{output}.{part}.side"], perm=order)
        yield helper.make_node("Reshape", [f"{output}.{part}.side", _FLAT], [f"{output}.{part}"])
    yield helper.make_node(
        "MultiHeadAttention",
        [f"{output}.{part}" for part in orders],
        [f"{output}.flat"],
        domain=MICROSOFT,
        num_heads=pattern.heads,
        scale=pattern.scale,
    )
    yield helper.make_node("Reshape", [f"{output}.flat", pattern.apart], [f"{output}.side"])
    yield helper.make_node("Transpose", [f"{output}.side"], [output], perm=[0, 2, 1, 3])
