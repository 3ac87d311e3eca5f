"""The port of a graph: the values that say how one is run, and what every opened graph promises.

How a library runs a graph is left to graph_onnx and graph_openvino, what it is run on to session.
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
    """What runs a graph, and how."""

    library: Library = "onnxruntime"
    provider: Provider = "cpu"
    # Of floating-point operations; what a graph does in int8 stays so. A library that chose for itself would take
    # bf16 wherever the CPU has it, and give other scores on another machine.
    arithmetic: Arithmetic = "f32"
    workers: int = 1  # calls at once; each runs on one thread


class Graph(Protocol):
    """An opened graph. A row's result does not depend on the rows beside it, unless the graph itself makes it so.

    `run` may be called from several threads at once, which share the weights; what the library raises is a ModelError
    with the file's path. Opening raises ModelError when the file or the wished provider or arithmetic cannot be used.
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
        """The first output for these inputs, int64 [rows, tokens] each; the caller's own: fp32 [rows, ...]."""
        ...
