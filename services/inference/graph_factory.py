"""Opens a graph file in the library that a Runtime names; imports only that library.

Choosing and verifying the file is left to prepared_graphs.
"""

from importlib.util import find_spec
from pathlib import Path

from services.inference.graph import Graph, Runtime
from services.inference.profiles import CrossEncoderProfile, EncoderProfile, ModelError


def open_graph(path: Path, profile: EncoderProfile | CrossEncoderProfile, runtime: Runtime) -> Graph:
    """Opens the graph in `path`. Raises ModelError when the library is not installed or cannot open or run it."""
    match runtime.library:
        case "onnxruntime":
            from services.inference.graph_onnx import OnnxGraph

            return OnnxGraph(path, profile.session_entries, runtime)
        case "openvino":
            if find_spec("openvino") is None:
                raise ModelError("The engine `openvino` is not installed: install the extra `openvino`.")
            from services.inference.graph_openvino import OpenVinoGraph

            return OpenVinoGraph(path, profile.precision, runtime)
