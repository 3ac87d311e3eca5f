"""An ONNX Runtime session over one model folder: opened with checked files, inputs and output, and safe to share.

It owns how ONNX Runtime is set up (one thread a call, no arena); it knows nothing of texts or batches.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as runtime  # type: ignore[import-untyped]  # as above

from services.inference.digests import difference
from services.inference.profiles import GRAPH, CrossEncoderProfile, EncoderProfile, ModelError
from services.inference.tokens import Row

Provider = Literal["cpu", "cuda"]
Float32 = NDArray[np.float32]

_PROVIDERS = {"cpu": ["CPUExecutionProvider"], "cuda": ["CUDAExecutionProvider", "CPUExecutionProvider"]}
_NEEDED = {"input_ids", "attention_mask"}
_KNOWN = {*_NEEDED, "token_type_ids"}

# Everything that ONNX Runtime raises: it gives its errors no common base, and each release adds some.
RUNTIME_ERRORS = tuple(
    value for value in vars(runtime).values() if isinstance(value, type) and issubclass(value, Exception)
)


class Session:
    """One loaded graph. `run` may be called from several threads at once: the weights are shared."""

    def __init__(self, profile: EncoderProfile | CrossEncoderProfile, folder: Path, provider: Provider = "cpu") -> None:
        """Opens `folder`; raises ModelError when a file, the provider or the graph is not as declared."""
        self._path = folder / GRAPH
        wrong = difference(profile, folder)
        if wrong is not None:
            raise ModelError(f"The model in {folder} is not usable: {wrong}; `make models` puts it right.")
        self.weights_sha256 = profile.files[GRAPH]
        self._session = _open(self._path, profile, provider)
        self._inputs = _checked_inputs(self._session, self._path)
        self._output = self._session.get_outputs()[0].name
        self._check_output(profile)

    def run(self, rows: list[Row]) -> Float32:
        """The first output for these rows, padded to the longest: fp32 [rows, ...].

        Raises ModelError when ONNX Runtime refuses them.
        """
        shape = (len(rows), max(len(row.ids) for row in rows))
        # Padding is masked out, so any valid token id will do for it.
        feed = {name: np.zeros(shape, dtype=np.int64) for name in _KNOWN}
        for place, row in enumerate(rows):
            length = len(row.ids)
            feed["input_ids"][place, :length] = row.ids
            feed["token_type_ids"][place, :length] = row.types
            feed["attention_mask"][place, :length] = 1
        try:
            (output,) = self._session.run([self._output], {name: feed[name] for name in self._inputs})
        except RUNTIME_ERRORS as error:
            raise ModelError(f"{self._path} failed on a batch of shape {shape}: {_line(error)}.") from error
        return np.asarray(output, dtype=np.float32)

    def _check_output(self, profile: EncoderProfile | CrossEncoderProfile) -> None:
        """One run over two rows of different length; it also pays the first call's set-up before any user does."""
        shape = self.run([Row([0, 0, 0], [0, 0, 0]), Row([0], [0])]).shape
        match profile:
            case EncoderProfile():
                fits, expected = shape == (2, 3, profile.dimension), f"[batch, tokens, {profile.dimension}]"
            case CrossEncoderProfile():
                fits, expected = shape in ((2, 1), (2, 2)), "[batch, 1] or [batch, 2]"
        if not fits:
            raise ModelError(
                f"{self._path} is not the {profile.kind} that models.yaml declares: for two rows of three tokens its "
                f"output {self._output} has the shape {list(shape)}, and {expected} is needed."
            )


def _open(path: Path, profile: EncoderProfile | CrossEncoderProfile, provider: Provider) -> ort.InferenceSession:
    wanted = _PROVIDERS[provider]
    if wanted[0] not in ort.get_available_providers():
        raise ModelError(f"This ONNX Runtime has no {wanted[0]}: install the extra `gpu` in place of `cpu`.")
    options = ort.SessionOptions()
    # One thread a call, several calls at once: robust when other processes need a core (performance.md 2.1).
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    # The arena keeps the peak of the largest batch for ever; our batches vary tenfold.
    options.enable_cpu_mem_arena = False
    # Plans are cached per input shape, and nearly every batch has a shape of its own.
    options.enable_mem_pattern = False
    # Fatal only: whatever goes wrong is raised, and the exception says what the log line would.
    options.log_severity_level = 4
    for key, value in profile.session_entries.items():
        options.add_session_config_entry(key, value)
    try:
        session = ort.InferenceSession(path, options, providers=wanted)
    except RUNTIME_ERRORS as error:
        raise ModelError(f"{path} is not a graph that ONNX Runtime can open: {_line(error)}.") from error
    if session.get_providers()[0] != wanted[0]:
        # ONNX Runtime goes on without the provider when a library of it is missing, and only prints so.
        raise ModelError(f"ONNX Runtime could not start {wanted[0]} for {path}: check the CUDA and cuDNN libraries.")
    return session


def _checked_inputs(session: ort.InferenceSession, path: Path) -> list[str]:
    inputs = {value.name: value.type for value in session.get_inputs()}
    if not _NEEDED <= inputs.keys() <= _KNOWN or set(inputs.values()) != {"tensor(int64)"}:
        listed = ", ".join(f"{name} {kind}" for name, kind in inputs.items()) or "none"
        raise ModelError(f"{path} is no BERT graph: its inputs are {listed}.")
    return list(inputs)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
