"""Opens one model folder in ONNX Runtime and runs rows through its graph: one thread per call, no arena.

Owns padding and the checks of inputs and output; open_model owns texts, batches and threads.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as runtime_state  # type: ignore[import-untyped]  # as above

from services.files.regular_file import read_regular
from services.inference.model_tokenizer import Row
from services.inference.prepared_graphs import Provider, verified_graph
from services.inference.profiles import (
    CONFIG,
    GRAPH,
    CrossEncoderProfile,
    EncoderProfile,
    FileName,
    ModelError,
    ModelProfile,
    SparseEncoderProfile,
    TokenEncoderProfile,
)

Float32 = NDArray[np.float32]
_NEEDED = {"input_ids", "attention_mask"}
_KNOWN = {*_NEEDED, "token_type_ids"}
# Defaults of transformers where config.json has no pad_token_id (RobertaConfig and its subclasses; all others: 0).
_PAD_ID_OF_FAMILY = {"roberta": 1, "xlm-roberta": 1, "camembert": 1}
_LEARNED_POSITIONS = {"bert", "distilbert", *_PAD_ID_OF_FAMILY}

# ONNX Runtime multiplies in TF32 by default, which keeps 10 bits of a factor. models.yaml declares fp32, and vectors of
# a query and of documents must fit whatever device made either.
_CPU = ("CPUExecutionProvider", dict[str, str]())
_PROVIDERS = {"cpu": [_CPU], "cuda": [("CUDAExecutionProvider", {"use_tf32": "0"}), _CPU]}

# The fused BiasGelu took 1.4 times as long as Add and Gelu (337 x 1536, ONNX Runtime 1.31, AVX-512), with equal bits.
_DISABLED_OPTIMIZERS = ["BiasGeluFusion"]

# All exceptions of ONNX Runtime: they have no common base class, and each release adds some.
RUNTIME_ERRORS = tuple(
    value for value in vars(runtime_state).values() if isinstance(value, type) and issubclass(value, Exception)
)


class Session:
    """Pads rows and runs them through one loaded graph. Thread-safe; threads share the weights.

    If it is not `batchable`, a row's result depends on the other rows of its batch, and on its padding.
    """

    def __init__(
        self, profile: ModelProfile, folder: Path, provider: Provider = "cpu", graph: FileName = GRAPH
    ) -> None:
        """Opens a graph of `folder`; raises ModelError when a file, the provider or the graph is not as declared."""
        self._path = verified_graph(profile, folder, provider, graph)
        self.weights_sha256 = profile.files[graph]
        self.batchable = profile.batchable
        config = read_config(folder / CONFIG)
        self._pad_id = pad_id(config, folder / CONFIG)
        expect_positions(profile, config, self._pad_id)
        self._session = open_session(self._path, profile.session_entries, provider)
        # tensor(int64) becomes numpy's int64; other types keep a name that is refused.
        self._inputs = {
            value.name: value.type.removeprefix("tensor(").removesuffix(")") for value in self._session.get_inputs()
        }
        self._output: str = self._session.get_outputs()[0].name
        if not _NEEDED <= self._inputs.keys() <= _KNOWN or set(self._inputs.values()) != {"int64"}:
            listed = ", ".join(f"{name} {kind}" for name, kind in self._inputs.items()) or "none"
            raise ModelError(
                f"{self._path} is not a graph over token ids: its inputs are {listed}; input_ids, attention_mask and, "
                "where there are segments, token_type_ids are needed, all int64."
            )
        self._check_output(profile)

    def run(self, rows: list[Row]) -> Float32:
        """Pads the rows to the longest and returns the first output: fp32 [rows, ...].

        Raises ModelError when ONNX Runtime fails.
        """
        shape = (len(rows), max(len(row.ids) for row in rows))
        # The mask excludes padding, but RoBERTa's graphs count positions by comparing ids with the padding id.
        ids = np.full(shape, self._pad_id, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for place, row in enumerate(rows):
            length = len(row.ids)
            ids[place, :length] = row.ids
            types[place, :length] = row.types
            mask[place, : length - row.unattended] = 1
        feed = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask}
        try:
            # InferenceSession.run is documented as thread-safe.
            (output,) = self._session.run([self._output], {name: feed[name] for name in self._inputs})
        except RUNTIME_ERRORS as error:
            raise ModelError(f"{self._path} failed on a batch of shape {shape}: {_one_line(error)}.") from error
        return np.asarray(output, dtype=np.float32)

    def _check_output(self, profile: ModelProfile) -> None:
        """Runs two rows of different length and checks the shape; the first request then needs no set-up."""
        shape = self.run([Row([0, 0, 0], [0, 0, 0]), Row([0], [0])]).shape
        match profile:
            case EncoderProfile(pooling="graph"):
                width = profile.width or profile.dimension
                fits, expected = shape == (2, width), f"[batch, {width}] (pooling: graph)"
            case EncoderProfile():
                width = profile.width or profile.dimension
                fits, expected = shape == (2, 3, width), f"[batch, tokens, {width}] (pooling: {profile.pooling})"
            case TokenEncoderProfile():
                fits, expected = shape == (2, 3, profile.dimension), f"[batch, tokens, {profile.dimension}]"
            case CrossEncoderProfile():
                fits, expected = shape in ((2, 1), (2, 2)), "[batch, 1] or [batch, 2]"
            case SparseEncoderProfile():
                fits, expected = shape == (2, profile.vocabulary), f"[batch, {profile.vocabulary}]"
        if not fits:
            raise ModelError(
                f"{self._path} is not the {profile.kind} that models.yaml declares: for two rows of three tokens its "
                f"output {self._output} has the shape {list(shape)}, and {expected} is needed."
            )


def read_config(config_file: Path) -> dict[str, object]:
    """Returns the content of a config.json; raises ModelError."""
    try:
        config = json.loads(read_regular(config_file))
    except (OSError, ValueError) as error:
        raise ModelError(f"{config_file} is not the config.json of a model: {error}.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{config_file} is not the config.json of a model: it holds no object.")
    return config


def pad_id(config: dict[str, object], config_file: Path) -> int:
    """Returns the padding id of config.json, or the default of the model's family; raises ModelError."""
    padding = config.get("pad_token_id")
    if padding is None:
        padding = _PAD_ID_OF_FAMILY.get(str(config.get("model_type")), 0)
    if not isinstance(padding, int) or isinstance(padding, bool) or padding < 0:
        raise ModelError(f"{config_file} names {padding!r} as its pad_token_id, and a token id is needed.")
    return padding


def expect_positions(profile: ModelProfile, config: dict[str, object], padding: int) -> None:
    """Raises ModelError when the profile reads more tokens than the table of positions has: long texts would fail."""
    family, positions = config.get("model_type"), config.get("max_position_embeddings")
    if family not in _LEARNED_POSITIONS or not isinstance(positions, int):
        return
    # RoBERTa counts positions from the one after its padding id.
    most = positions - padding - 1 if family in _PAD_ID_OF_FAMILY else positions
    if profile.max_tokens > most:
        raise ModelError(
            f"{profile.name} reads at most {most} tokens by its {CONFIG}, and models.yaml declares max_tokens: "
            f"{profile.max_tokens}."
        )


def open_session(path: Path, entries: Mapping[str, str], provider: Provider, times: str = "") -> ort.InferenceSession:
    """Opens the graph in `path`; `entries` are the session configuration entries of models.yaml. Raises ModelError.

    With `times`, the session's `end_profiling` writes the times of all nodes to a file whose path begins so.
    """
    providers = _PROVIDERS[provider]
    wanted, _ = providers[0]
    if wanted not in ort.get_available_providers():
        raise ModelError(f"This ONNX Runtime has no {wanted}: install the extra `gpu` in place of `cpu`.")
    if provider == "cuda":
        ort.preload_dlls()  # else only LD_LIBRARY_PATH leads to the libraries that the extra `gpu` installs
    options = ort.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = bool(times), times
    # One thread per call and concurrent calls: a call never waits for a thread that another process delays.
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
        session = ort.InferenceSession(path, options, providers, disabled_optimizers=_DISABLED_OPTIMIZERS)
    except RUNTIME_ERRORS as error:
        raise ModelError(f"{path} is not a graph that ONNX Runtime can open: {_one_line(error)}.") from error
    if session.get_providers()[0] != wanted:
        # Without the provider's libraries ONNX Runtime only prints a warning and falls back to the CPU.
        raise ModelError(f"ONNX Runtime could not start {wanted} for {path}: check driver, CUDA and cuDNN.")
    session.disable_fallback()  # to the CPU, when a run fails on the GPU
    return session


def _one_line(error: Exception) -> str:
    """Returns the text of an error in one line, without the full stop."""
    return " ".join(str(error).split()).rstrip(".")
