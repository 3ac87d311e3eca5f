"""Opens one model folder and runs rows through its graph: files checked, rows padded, inputs and output as declared.

Texts and batches are left to model, how a library runs a graph to the adapters of graph.
"""

import json
from pathlib import Path

import numpy as np

from services.inference.graph import Float32, Runtime
from services.inference.graph_factory import open_graph
from services.inference.model_tokenizer import Row
from services.inference.prepared_graphs import verified_graph
from services.inference.profiles import CONFIG, GRAPH, CrossEncoderProfile, EncoderProfile, ModelError

_NEEDED = {"input_ids", "attention_mask"}
_KNOWN = {*_NEEDED, "token_type_ids"}
# What transformers assumes where config.json says nothing (RobertaConfig and its heirs; every other family: 0).
_PAD_ID_OF_FAMILY = {"roberta": 1, "xlm-roberta": 1, "camembert": 1}


class Session:
    """One loaded graph. `run` may be called from several threads at once: the weights are shared.

    Where it is not `batchable`, a row's result depends on the rows beside it, and on its padding.
    """

    def __init__(
        self, profile: EncoderProfile | CrossEncoderProfile, folder: Path, runtime: Runtime | None = None
    ) -> None:
        """Opens `folder`; raises ModelError when a file, the runtime or the graph is not as declared."""
        chosen = runtime or Runtime()
        self._path = verified_graph(profile, folder, chosen)
        self.weights_sha256 = profile.files[GRAPH]
        # OpenVINO picks its kernels by the shape of a batch, so the order of sums: in f32 that moved scores by 2e-6,
        # in bf16 by 0.01, rounded to int8 by 0.09 (minilm-l6-ce-v1). In ONNX Runtime not one bit changed.
        self.batchable = profile.batchable and chosen.library == "onnxruntime"
        self._pad_id = pad_id(folder / CONFIG)
        self._graph = open_graph(self._path, profile, chosen)
        self._check_inputs()
        self._check_output(profile)

    def run(self, rows: list[Row]) -> Float32:
        """The first output for these rows, padded to the longest: fp32 [rows, ...].

        Raises ModelError when the library refuses them.
        """
        shape = (len(rows), max(len(row.ids) for row in rows))
        # Masked out; but RoBERTa's graphs count positions over the ids that are not padding, so it must be theirs.
        ids = np.full(shape, self._pad_id, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for place, row in enumerate(rows):
            length = len(row.ids)
            ids[place, :length] = row.ids
            types[place, :length] = row.types
            mask[place, :length] = 1
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
                f"output {self._graph.output} has the shape {list(shape)}, and {expected} is needed."
            )


def pad_id(config_file: Path) -> int:
    """The id that fills rows up, from a model's config.json, or what its family assumes; raises ModelError."""
    try:
        config = json.loads(config_file.read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError(f"{config_file} is not the config.json of a model: {error}.") from error
    if not isinstance(config, dict):
        raise ModelError(f"{config_file} is not the config.json of a model: it holds no object.")
    found = config.get("pad_token_id")
    if found is None:
        found = _PAD_ID_OF_FAMILY.get(str(config.get("model_type")), 0)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ModelError(f"{config_file} names {found!r} as its pad_token_id, and a token id is needed.")
    return found
