"""Removes unused computation from a cross-encoder's graph. Keeping the result is left to prepare."""

import onnx

from deploy.models.graph_rewrites.attention import attention
from deploy.models.graph_rewrites.first_token import first_token_only
from deploy.models.graph_rewrites.int8_products import int8_products
from deploy.models.graph_rewrites.mask_in_keys import mask_in_keys


def lean(graph: bytes, *, onnxruntime_cpu: bool) -> bytes:
    """Gives an ONNX file with the same scores for less work; raises protobuf's DecodeError when `graph` is none.

    `onnxruntime_cpu`: it is for ONNX Runtime on a CPU, whose own operators it may hold; other libraries fuse by
    themselves what looks as it was exported.
    """
    model = onnx.load_from_string(graph)
    first_token_only(model)
    if onnxruntime_cpu:
        mask_in_keys(model)
        attention(model)
        int8_products(model)
    return bytes(model.SerializeToString())
