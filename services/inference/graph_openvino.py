"""Runs graphs in OpenVINO, on the CPU: f32 or bf16 arithmetic, int8 where the graph is quantised."""

import ctypes
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import openvino as ov
from openvino.passes import ConstantFolding, Manager

from services.inference.graph import Float32, Int64, Runtime, one_line
from services.inference.profiles import ModelError, Precision

# Size of OpenVINO's cache of compiled kernels, one for each operation and shape. Nearly every batch has a new shape,
# and with the default of 5,000 the process would grow with each.
KERNEL_CACHE_SIZE = 256


class SignalStack(ctypes.Structure):
    """Mirrors `stack_t` of sigaltstack(2), on Linux."""

    _fields_ = (("base", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


@contextmanager
def preserving_signal_stack() -> Iterator[None]:
    """Restores the calling thread's alternate signal stack when the block ends.

    On a CPU with AMX, OpenVINO 2026.4 sets an alternate stack in the thread that opens a model, and restores the former
    one when the model is freed. If the first of two models is freed first, its stack is unmapped, and the second one
    then restores that unmapped stack: the next signal that Python handles is a segmentation fault.
    """
    c = ctypes.CDLL(None)
    before = SignalStack()
    c.sigaltstack(None, ctypes.byref(before))
    try:
        yield
    finally:
        # The kernel refuses this if `before` is smaller than the library requested; then the library's stack stays.
        c.sigaltstack(ctypes.byref(before), None)


class OpenVinoGraph:
    """Implements Graph with a compiled model and a pool of infer requests."""

    def __init__(self, path: Path, precision: Precision, runtime: Runtime) -> None:
        """Opens and compiles the graph for `runtime.workers` concurrent calls, one thread each."""
        self._path = path
        with preserving_signal_stack():
            core = ov.Core()
            _check_support(core, runtime)
            try:
                read = core.read_model(path)
                if precision == "int8-weights":
                    _fold_weights(read)
                self._compiled = core.compile_model(read, "CPU", _properties(runtime))
            except RuntimeError as error:  # the only type that OpenVINO raises
                raise ModelError(f"{path} is not a graph that OpenVINO can open: {one_line(error)}.") from error
        self.inputs = {value.any_name: value.element_type.to_dtype().name for value in self._compiled.inputs}
        self.output: str = self._compiled.outputs[0].any_name
        # An infer request holds the tensors of one call; the pool grows to the most concurrent calls so far.
        self._idle: deque[ov.InferRequest] = deque()

    def run(self, feed: Mapping[str, Int64]) -> Float32:
        """Runs the graph. Thread-safe: each infer request serves one call at a time."""
        try:
            request = self._idle.pop()
        except IndexError:
            request = self._compiled.create_infer_request()
        try:
            # `infer` copies the outputs, because the next call overwrites those of the request.
            outputs = request.infer(dict(feed), share_inputs=True)
            return np.asarray(outputs[0], dtype=np.float32)
        except RuntimeError as error:
            shape = next(iter(feed.values())).shape
            raise ModelError(f"{self._path} failed on a batch of shape {shape}: {one_line(error)}.") from error
        finally:
            self._idle.append(request)


def _fold_weights(model: ov.Model) -> None:
    """Dequantises int8 weights to fp32 once, when the model is opened.

    The CPU plug-in (2026.4) mistakes the scales per row of a transposed Gemm for scales per column: without this,
    scores of minilm-l6-ce-v1 were wrong by 0.5.
    """
    manager = Manager()
    manager.register_pass(ConstantFolding())
    manager.run_passes(model)


def _properties(runtime: Runtime) -> dict[str, str | int | bool]:
    return {
        "INFERENCE_PRECISION_HINT": runtime.arithmetic,
        # One stream a worker and one thread a stream: a call never waits for a thread that another process delays.
        "NUM_STREAMS": runtime.workers,
        "INFERENCE_NUM_THREADS": runtime.workers,
        # Pinned threads of two processes could share one core while another is idle.
        "ENABLE_CPU_PINNING": False,
        # 0 disables it. By default, activations beside int8 weights are quantised with dynamic scales.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        "CPU_RUNTIME_CACHE_CAPACITY": KERNEL_CACHE_SIZE,
    }


def _check_support(core: ov.Core, runtime: Runtime) -> None:
    if runtime.provider != "cpu":
        raise ModelError(f"The engine `openvino` runs on the CPU; {runtime.provider} needs the engine `onnxruntime`.")
    if runtime.arithmetic == "bf16" and "BF16" not in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
        raise ModelError("This CPU has no bf16 arithmetic (AVX512-BF16 or AMX); use f32.")
