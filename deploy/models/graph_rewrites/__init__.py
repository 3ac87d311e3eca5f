"""Removes unused computation from a cross-encoder's graph. The file on disk is unchanged; prepare keeps the result."""

import onnx

from deploy.models.graph_rewrites.attention import fuse_attention, move_mask_into_keys
from deploy.models.graph_rewrites.first_token import prune_to_first_token
from deploy.models.graph_rewrites.int8_products import fuse_int8_bias


def rewrite_graph(graph: bytes, *, onnxruntime_cpu: bool) -> bytes:
    """Returns an ONNX file with the same scores for less work; raises protobuf's DecodeError for other bytes.

    `onnxruntime_cpu` allows operators that only ONNX Runtime has, on CPUs; other libraries recognise the patterns of
    the exported graph and fuse them by themselves.
    """
    model = onnx.load_from_string(graph)
    prune_to_first_token(model)
    if onnxruntime_cpu:
        move_mask_into_keys(model)
        fuse_attention(model)
        fuse_int8_bias(model)
    return bytes(model.SerializeToString())
