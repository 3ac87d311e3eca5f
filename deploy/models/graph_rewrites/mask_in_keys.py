"""The attention mask rides in the keys: the queries get a column of ones, the keys the mask as one more row.

Their product then holds the mask already, and the pass that adds it to [batch, heads, tokens, tokens] is saved: that is
the largest value of all, which no cache holds for long passages. In ONNX Runtime not a bit of our scores changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from deploy.models.graph_rewrites.graph_facts import (
    Product,
    attribute,
    makers_of,
    product_behind,
    shapes_of,
    small_constants,
    uses_of,
)
from deploy.models.graph_rewrites.node_replacement import replace


@dataclass(frozen=True, slots=True)
class _Masked:
    """The `product` of queries and keys, divided as it may be, plus `mask`."""

    product: Product
    mask: str
    heads: int

    @property
    def row(self) -> str:
        """The mask as a row of the keys, [batch, heads, 1, tokens]."""
        return f"{self.mask}.times_{self.product.divisor:g}.row"


def mask_in_keys(model: onnx.ModelProto) -> None:
    """Rewrites each Softmax(product of queries and keys / factor + mask) whose mask is one row for all.

    Where shapes are not known, or somebody else reads what lies between, the graph stays as it is.
    """
    found = dict(_found(model))
    made: dict[str, list[onnx.NodeProto]] = {}
    rows: dict[str, _Masked] = {}
    for name, one in found.items():
        made[name] = [*([] if one.row in rows else _row(one)), *_joined(one, name)]
        rows[one.row] = one
    constants = {"ones.pads": np.array([0, 0, 0, 0, 0, 0, 0, 1]), "ones.value": np.array(1, dtype=np.float32)}
    for row, one in rows.items():
        constants[f"{row}.factor"] = np.array(one.product.divisor, dtype=np.float32)
        constants[f"{row}.heads"] = np.array([1, one.heads, 1, 1])
    replace(model, made, constants)


def _found(model: onnx.ModelProto) -> Iterator[tuple[str, _Masked]]:
    """By the name of the masked product."""
    small, shapes, uses, makers = small_constants(model), shapes_of(model), uses_of(model), makers_of(model)
    for softmax in model.graph.node:
        added = makers.get(softmax.input[0]) if softmax.op_type == "Softmax" else None
        if added is None or added.op_type != "Add" or attribute(softmax, "axis", -1) not in (-1, 3):
            continue
        product = product_behind(added.input[0], makers, small)
        if product is None:
            continue
        queries, mask = shapes.get(product.node.input[0], []), shapes.get(added.input[1], [])
        read_once = all(uses[name] == 1 for name in [*product.names, added.output[0]])
        if read_once and len(queries) == len(mask) == 4 and mask[1] == mask[2] == 1 and queries[1]:
            yield added.output[0], _Masked(product, added.input[1], queries[1])


def _row(one: _Masked) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Mul", [one.mask, f"{one.row}.factor"], [f"{one.row}.wide"]),
        helper.make_node("Tile", [f"{one.row}.wide", f"{one.row}.heads"], [one.row]),
    ]


def _joined(one: _Masked, output: str) -> Iterator[onnx.NodeProto]:
    """The product with the mask in it, under the name of what it stands for."""
    queries, keys = one.product.node.input
    wider, longer, scaled = f"{output}.queries", f"{output}.keys", one.product.scaled
    yield helper.make_node("Pad", [queries, "ones.pads", "ones.value"], [wider])
    yield helper.make_node("Concat", [keys, one.row], [longer], axis=2)
    if scaled is None:
        yield helper.make_node("MatMul", [wider, longer], [output])
        return
    yield helper.make_node("MatMul", [wider, longer], [f"{output}.product"])
    yield helper.make_node(scaled.op_type, [f"{output}.product", scaled.input[1]], [output])
