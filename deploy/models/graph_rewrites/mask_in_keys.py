"""Moves the attention mask into the keys: appends a column of ones to the queries, and the mask as a row to the keys.

Their product then includes the mask, which saves the pass that adds it to [batch, heads, tokens, tokens], the largest
value of the graph: for long passages it exceeds the CPU's cache. In ONNX Runtime our scores stayed equal to the bit.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from deploy.models.graph_rewrites.graph_facts import (
    ScaledProduct,
    count_uses,
    find_product,
    infer_shapes,
    integer_attribute,
    producers_of,
    small_constants,
)
from deploy.models.graph_rewrites.node_replacement import replace_nodes


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
    found = dict(_found(model))
    new_nodes: dict[str, list[onnx.NodeProto]] = {}
    rows: dict[str, _MaskedProduct] = {}
    for name, one in found.items():
        new_nodes[name] = [*([] if one.row in rows else _mask_row_nodes(one)), *_product_nodes(one, name)]
        rows[one.row] = one
    constants = {"ones.pads": np.array([0, 0, 0, 0, 0, 0, 0, 1]), "ones.value": np.array(1, dtype=np.float32)}
    for row, one in rows.items():
        constants[f"{row}.factor"] = np.array(one.product.divisor, dtype=np.float32)
        constants[f"{row}.heads"] = np.array([1, one.heads, 1, 1])
    replace_nodes(model, new_nodes, constants)


def _found(model: onnx.ModelProto) -> Iterator[tuple[str, _MaskedProduct]]:
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


def _mask_row_nodes(one: _MaskedProduct) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Mul", [one.mask, f"{one.row}.factor"], [f"{one.row}.wide"]),
        helper.make_node("Tile", [f"{one.row}.wide", f"{one.row}.heads"], [one.row]),
    ]


def _product_nodes(one: _MaskedProduct, output: str) -> Iterator[onnx.NodeProto]:
    """Builds the product of the longer queries and keys, under the name of the masked product that it replaces."""
    queries, keys = one.product.node.input
    wider, longer, scaled = f"{output}.queries", f"{output}.keys", one.product.scaled
    yield helper.make_node("Pad", [queries, "ones.pads", "ones.value"], [wider])
    yield helper.make_node("Concat", [keys, one.row], [longer], axis=2)
    if scaled is None:
        yield helper.make_node("MatMul", [wider, longer], [output])
        return
    yield helper.make_node("MatMul", [wider, longer], [f"{output}.product"])
    yield helper.make_node(scaled.op_type, [f"{output}.product", scaled.input[1]], [output])
