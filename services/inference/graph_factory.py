"""Opens a graph file in the library that a Runtime names; each library is imported only when it is the one.

Which file is opened, and whether it is the declared one, is left to session.
"""

from importlib.util import find_spec
from pathlib import Path

from services.inference.graph import Graph, Runtime
from services.inference.profiles import CrossEncoderProfile, EncoderProfile, ModelError


def open_graph(path: Path, profile: EncoderProfile | CrossEncoderProfile, runtime: Runtime) -> Graph:
    """Opens the graph in `path`, a cross-encoder's without what it would do for nobody. Raises ModelError."""
    model: Path | bytes = path
    if isinstance(profile, CrossEncoderProfile):
        # onnx is needed for this alone: the dense service does without it.
        from deploy.models.lean import lean

        on_cpu = runtime.library == "onnxruntime" and runtime.provider == "cpu"
        model = lean(path.read_bytes(), onnxruntime_cpu=on_cpu)
    match runtime.library:
        case "onnxruntime":
            from services.inference.graph_onnx import OnnxGraph

            return OnnxGraph(path, model, profile.session_entries, runtime)
        case "openvino":
            if find_spec("openvino") is None:
                raise ModelError("The engine `openvino` is not installed: install the extra `openvino`.")
            from services.inference.graph_openvino import OpenVinoGraph

            return OpenVinoGraph(path, model, profile.precision, runtime)
