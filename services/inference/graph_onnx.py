"""Runs graphs in ONNX Runtime: one thread a call, no memory arena."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from onnxruntime.capi import onnxruntime_pybind11_state as runtime_state  # type: ignore[import-untyped]  # as above

from services.inference.graph import Float32, Int64, Runtime, one_line
from services.inference.profiles import ModelError

_PROVIDERS = {"cpu": ["CPUExecutionProvider"], "cuda": ["CUDAExecutionProvider", "CPUExecutionProvider"]}

# The fused BiasGelu took 1.4 times as long as an Add and a Gelu (337 x 1536, ONNX Runtime 1.31 on an Intel Xeon with
# AVX-512); the results are equal to the bit.
_DISABLED_OPTIMIZERS = ["BiasGeluFusion"]

# All exceptions of ONNX Runtime: they have no common base class, and each release adds some.
RUNTIME_ERRORS = tuple(
    value for value in vars(runtime_state).values() if isinstance(value, type) and issubclass(value, Exception)
)


class OnnxGraph:
    """Implements Graph with an ONNX Runtime session."""

    def __init__(self, path: Path, entries: Mapping[str, str], runtime: Runtime) -> None:
        """Opens the graph in `path`; `entries` are the session configuration entries of models.yaml."""
        self._path = path
        self._session = _open(path, entries, runtime)
        # tensor(int64) becomes numpy's int64; other types keep a name that session refuses.
        self.inputs = {
            value.name: value.type.removeprefix("tensor(").removesuffix(")") for value in self._session.get_inputs()
        }
        self.output: str = self._session.get_outputs()[0].name

    def run(self, feed: Mapping[str, Int64]) -> Float32:
        """Runs the graph; InferenceSession.run is documented as thread-safe."""
        try:
            (output,) = self._session.run([self.output], dict(feed))
        except RUNTIME_ERRORS as error:
            shape = next(iter(feed.values())).shape
            raise ModelError(f"{self._path} failed on a batch of shape {shape}: {one_line(error)}.") from error
        return np.asarray(output, dtype=np.float32)


def _open(path: Path, entries: Mapping[str, str], runtime: Runtime) -> ort.InferenceSession:
    if runtime.arithmetic != "f32":
        raise ModelError(f"ONNX Runtime computes in f32; {runtime.arithmetic} needs the engine `openvino`.")
    wanted = _PROVIDERS[runtime.provider]
    if wanted[0] not in ort.get_available_providers():
        raise ModelError(f"This ONNX Runtime has no {wanted[0]}: install the extra `gpu` in place of `cpu`.")
    options = ort.SessionOptions()
    # One thread a call and concurrent calls: a call never waits for a thread that another process delays.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    # The arena would keep the peak of the largest batch; batches vary tenfold in size.
    options.enable_cpu_mem_arena = False
    # Memory patterns are cached per input shape, and nearly every batch has a shape of its own.
    options.enable_mem_pattern = False
    # Fatal only: errors are raised, and the exception has the same text as the log line.
    options.log_severity_level = 4
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    try:
        session = ort.InferenceSession(path, options, providers=wanted, disabled_optimizers=_DISABLED_OPTIMIZERS)
    except RUNTIME_ERRORS as error:
        raise ModelError(f"{path} is not a graph that ONNX Runtime can open: {one_line(error)}.") from error
    if session.get_providers()[0] != wanted[0]:
        # Without the provider's libraries ONNX Runtime only prints a warning and falls back to the CPU.
        raise ModelError(f"ONNX Runtime could not start {wanted[0]} for {path}: check the CUDA and cuDNN libraries.")
    return session
