"""Graphs in OpenVINO, on the CPU: f32 or bf16 arithmetic, int8 where the graph is quantised."""

from collections import deque
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import openvino as ov
from openvino.passes import ConstantFolding, Manager

from services.inference.graph import Float32, Int64, Runtime
from services.inference.profiles import ModelError, Precision
from services.inference.signal_stack import kept_signal_stack

# Kernels that OpenVINO keeps, for each operation and shape; nearly every batch has a shape of its own, and the default
# of 5,000 would let the process grow for as long as new shapes come.
KERNELS_KEPT = 256


class OpenVinoGraph:
    """Promises what Graph promises."""

    def __init__(self, path: Path, precision: Precision, runtime: Runtime) -> None:
        """Opens and compiles the graph for as many calls at once as there are workers, one thread each."""
        self._path = path
        with kept_signal_stack():
            core = ov.Core()
            _refuse(core, runtime)
            try:
                read = core.read_model(path)
                if precision == "int8-weights":
                    _fold_weights(read)
                self._compiled = core.compile_model(read, "CPU", _properties(runtime))
            except RuntimeError as error:  # the one type that OpenVINO raises
                raise ModelError(f"{path} is not a graph that OpenVINO can open: {_line(error)}.") from error
        self.inputs = {value.any_name: value.element_type.to_dtype().name for value in self._compiled.inputs}
        self.output: str = self._compiled.outputs[0].any_name
        # A request holds the tensors of one call: one for each call that was ever under way at once.
        self._idle: deque[ov.InferRequest] = deque()

    def run(self, feed: Mapping[str, Int64]) -> Float32:
        """Thread-safe: a request is in one call's hands at a time."""
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        try:
            # The outputs are copied: the next call writes over the request's own.
            outputs = request.infer(dict(feed), share_inputs=True)
            return np.asarray(outputs[0], dtype=np.float32)
        except RuntimeError as error:
            shape = next(iter(feed.values())).shape
            raise ModelError(f"{self._path} failed on a batch of shape {shape}: {_line(error)}.") from error
        finally:
            self._idle.append(request)


def _fold_weights(model: ov.Model) -> None:
    """Computes the weights once, in fp32, where the graph holds them as int8.

    Left to the plug-in (2026.4), the scale per row of a transposed Gemm was taken for one per column: scores of
    minilm-l6-ce-v1 were off by 0.5.
    """
    manager = Manager()
    manager.register_pass(ConstantFolding())
    manager.run_passes(model)


def _properties(runtime: Runtime) -> dict[str, str | int | bool]:
    return {
        "INFERENCE_PRECISION_HINT": runtime.arithmetic,
        # One thread a stream, a stream a worker: robust when other processes need a core.
        "NUM_STREAMS": runtime.workers,
        "INFERENCE_NUM_THREADS": runtime.workers,
        # Pinned threads of two processes would share a core while another stands idle.
        "ENABLE_CPU_PINNING": False,
        # On by default where weights stay int8, and then activations are rounded to int8 by scales of their own.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        "CPU_RUNTIME_CACHE_CAPACITY": KERNELS_KEPT,
    }


def _refuse(core: ov.Core, runtime: Runtime) -> None:
    if runtime.provider != "cpu":
        raise ModelError(f"The engine `openvino` runs on the CPU; {runtime.provider} needs the engine `onnxruntime`.")
    if runtime.arithmetic == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise ModelError("This CPU has no bf16 arithmetic (AVX512-BF16 or AMX); use f32.")


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
