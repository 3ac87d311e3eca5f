"""Opens a graph file in the library that a Runtime names; each library is imported only when it is the one.

Which file it is, and whether it is the declared one, is left to prepared.
"""

from importlib.util import find_spec
from pathlib import Path

from services.inference.graph import Graph, Runtime
from services.inference.profiles import CrossEncoderProfile, EncoderProfile, ModelError


def open_graph(path: Path, profile: EncoderProfile | CrossEncoderProfile, runtime: Runtime) -> Graph:
    """Opens the graph in `path`. Raises ModelError when the library is not installed, or cannot open or run it so."""
    match runtime.library:
        case "onnxruntime":
            from services.inference.graph_onnx import OnnxGraph

            return OnnxGraph(path, profile.session_entries, runtime)
        case "openvino":
            if find_spec("openvino") is None:
                raise ModelError("The engine `openvino` is not installed: install the extra `openvino`.")
            from services.inference.graph_openvino import OpenVinoGraph

            return OpenVinoGraph(path, profile.precision, runtime)
