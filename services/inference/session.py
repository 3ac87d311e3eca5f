"""Opens one model folder and runs rows through its graph. Owns padding, and the checks of inputs and output.

Imports only the library that a Runtime names. Texts, batches and threads are left to open_model, verifying files to
prepared_graphs, libraries to the adapters.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from services.files.regular_file import read_regular
from services.inference.graph import Float32, Graph, Runtime
from services.inference.model_tokenizer import Row
from services.inference.prepared_graphs import verified_graph
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

_NEEDED = {"input_ids", "attention_mask"}
_KNOWN = {*_NEEDED, "token_type_ids"}
# Defaults of transformers where config.json has no pad_token_id (RobertaConfig and its subclasses; all others: 0).
_PAD_ID_OF_FAMILY = {"roberta": 1, "xlm-roberta": 1, "camembert": 1}
_LEARNED_POSITIONS = {"bert", "distilbert", *_PAD_ID_OF_FAMILY}


class Session:
    """Pads rows and runs them through one loaded graph. Thread-safe; threads share the weights.

    If it is not `batchable`, a row's result depends on the other rows of its batch, and on its padding.
    """

    def __init__(
        self, profile: ModelProfile, folder: Path, runtime: Runtime | None = None, graph: FileName = GRAPH
    ) -> None:
        """Opens a graph of `folder`; raises ModelError when a file, the runtime or the graph is not as declared."""
        chosen = runtime or Runtime()
        self._path = verified_graph(profile, folder, chosen, graph)
        self.weights_sha256 = profile.files[graph]
        # OpenVINO chooses kernels, and so the order of summation, by the shape of a batch. That changed scores of
        # minilm-l6-ce-v1 by 2e-6 in f32, 0.01 in bf16 and 0.09 in int8. In ONNX Runtime no bit changed.
        self.batchable = profile.batchable and chosen.library == "onnxruntime"
        config = read_config(folder / CONFIG)
        self._pad_id = pad_id(config, folder / CONFIG)
        expect_positions(profile, config, self._pad_id)
        self._graph = open_graph(self._path, profile, chosen)
        self._check_inputs()
        self._check_output(profile)

    def run(self, rows: list[Row]) -> Float32:
        """Pads the rows to the longest and returns the first output: fp32 [rows, ...].

        Raises ModelError when the library fails.
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
        return self._graph.run({name: feed[name] for name in self._graph.inputs})

    def _check_inputs(self) -> None:
        inputs = self._graph.inputs
        if not _NEEDED <= inputs.keys() <= _KNOWN or set(inputs.values()) != {"int64"}:
            listed = ", ".join(f"{name} {kind}" for name, kind in inputs.items()) or "none"
            raise ModelError(
                f"{self._path} is no graph over token ids: its inputs are {listed}; input_ids, attention_mask and, "
                "where there are segments, token_type_ids are needed, all int64."
            )

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
                f"output {self._graph.output} has the shape {list(shape)}, and {expected} is needed."
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
    found = config.get("pad_token_id")
    if found is None:
        found = _PAD_ID_OF_FAMILY.get(str(config.get("model_type")), 0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ModelError(f"{config_file} names {found!r} as its pad_token_id, and a token id is needed.")
    return found


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


def open_graph(path: Path, profile: ModelProfile, runtime: Runtime) -> Graph:
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
