"""The attention mask rides in the keys: the queries get a column of ones, the keys the mask as one more row.

Their product then holds the mask already, and the pass that adds it to [batch, heads, tokens, tokens] is saved: that is
the largest value of all, which no cache holds for long passages. In ONNX Runtime not a bit of our scores changed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from services.inference.graph_facts import attribute, shapes_of, small_constants, uses_of


@dataclass(frozen=True, slots=True)
class _Masked:
    """`product` of queries and keys, divided by `factor` (by the node `scaled`, if there is one), plus `mask`."""

    product: onnx.NodeProto
    scaled: onnx.NodeProto | None
    factor: float
    mask: str
    heads: int

    @property
    def row(self) -> str:
        """The mask as a row of the keys, [batch, heads, 1, tokens]."""
        return f"{self.mask}.times_{self.factor:g}.row"


def mask_in_keys(model: onnx.ModelProto) -> None:
    """Rewrites each Softmax(product of queries and keys / factor + mask) whose mask is one row for all.

    Where shapes are not known, or somebody else reads what lies between, the graph stays as it is.
    """
    found = dict(_found(model))
    inside = {one.product.output[0] for one in found.values()}
    inside |= {one.scaled.output[0] for one in found.values() if one.scaled is not None}
    nodes: list[onnx.NodeProto] = []
    rows: set[str] = set()
    for node in model.graph.node:
        name = node.output[0] if node.output else ""
        if name in found:
            one = found[name]
            if one.row not in rows:
                rows.add(one.row)
                nodes += _row(one)
            nodes += _joined(one, name)
        elif name not in inside:
            nodes.append(node)
    if found:
        constants = {"ones.pads": np.array([0, 0, 0, 0, 0, 0, 0, 1]), "ones.value": np.array(1, dtype=np.float32)}
        for one in found.values():
            constants[f"{one.row}.factor"] = np.array(one.factor, dtype=np.float32)
            constants[f"{one.row}.heads"] = np.array([1, one.heads, 1, 1])
        model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
        del model.graph.node[:]
        model.graph.node.extend(nodes)


def _found(model: onnx.ModelProto) -> Iterator[tuple[str, _Masked]]:
    """By the name of the masked product."""
    small, shapes, uses = small_constants(model), shapes_of(model), uses_of(model)
    makers = {name: node for node in model.graph.node for name in node.output}
    for softmax in model.graph.node:
        added = makers.get(softmax.input[0]) if softmax.op_type == "Softmax" else None
        if added is None or added.op_type != "Add" or attribute(softmax, "axis", -1) not in (-1, 3):
            continue
        product, scaled, factor = makers.get(added.input[0]), None, 1.0
        if product is not None and product.op_type in ("Div", "Mul") and product.input[1] in small:
            scaled, by = product, small[product.input[1]]
            if by.size != 1 or not by.any():
                continue
            product = makers.get(scaled.input[0])
            factor = float(by.item()) if scaled.op_type == "Div" else 1 / float(by.item())
        if product is None or product.op_type != "MatMul":
            continue
        queries, mask = shapes.get(product.input[0], []), shapes.get(added.input[1], [])
        read_once = all(uses[one.output[0]] == 1 for one in (added, scaled, product) if one is not None)
        if read_once and len(queries) == len(mask) == 4 and mask[1] == mask[2] == 1 and queries[1]:
            yield added.output[0], _Masked(product, scaled, factor, added.input[1], queries[1])


def _row(one: _Masked) -> list[onnx.NodeProto]:
    return [
        helper.make_node("Mul", [one.mask, f"{one.row}.factor"], [f"{one.row}.wide"]),
        helper.make_node("Tile", [f"{one.row}.wide", f"{one.row}.heads"], [one.row]),
    ]


def _joined(one: _Masked, output: str) -> Iterator[onnx.NodeProto]:
    """The product with the mask in it, under the name of what it stands for."""
    queries, keys = one.product.input
    wider, longer = f"{output}.queries", f"{output}.keys"
    yield helper.make_node("Pad", [queries, "ones.pads", "ones.value"], [wider])
    yield helper.make_node("Concat", [keys, one.row], [longer], axis=2)
    if one.scaled is None:
        yield helper.make_node("MatMul", [wider, longer], [output])
        return
    yield helper.make_node("MatMul", [wider, longer], [one.product.output[0]])
    yield helper.make_node(one.scaled.op_type, list(one.scaled.input), [output])
