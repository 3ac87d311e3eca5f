"""Defines the port of an opened graph, and the options of its runtime.

How a library runs a graph is left to graph_onnx and graph_openvino, checks and padding to session.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Library = Literal["onnxruntime", "openvino"]
Provider = Literal["cpu", "cuda"]
Arithmetic = Literal["f32", "bf16"]
Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Runtime:
    """Options of the library that runs a graph."""

    library: Library = "onnxruntime"
    provider: Provider = "cpu"
    # It applies to floating-point operations; int8 operations stay int8. By default OpenVINO chooses bf16 where the CPU
    # has it, so that scores would depend on the machine.
    arithmetic: Arithmetic = "f32"
    workers: int = 1  # concurrent calls; each runs on one thread


class Graph(Protocol):
    """Runs an opened graph. A row's result is independent of its batch's other rows, unless the graph mixes them.

    `run` is thread-safe, and threads share the weights. Errors of the library become ModelError with the file's path.
    Opening raises ModelError when the file, or the requested provider or arithmetic, cannot be used.
    """

    @property
    def inputs(self) -> Mapping[str, str]:
        """The type of each input, as numpy names it: `int64`."""
        ...

    @property
    def output(self) -> str:
        """The name of the first output."""
        ...

    def run(self, feed: Mapping[str, Int64]) -> Float32:
        """Returns the first output for inputs of int64 [rows, tokens]: fp32 [rows, ...], owned by the caller."""
        ...


def one_line(error: Exception) -> str:
    """Returns the text of a library's error in one line, without the full stop."""
    return " ".join(str(error).split()).rstrip(".")
