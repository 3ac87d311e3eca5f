"""Runs doc2query-T5 (Nogueira and Lin 2019, "From doc2query to docTTTTTquery") on ONNX Runtime.

Its folder is an export by Optimum: `encoder_model.onnx`, `decoder_model.onnx`, `tokenizer.json`, `config.json`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from tokenizers import Tokenizer

from evaluator.errors import EvaluationError
from workshop.doc2query.query_generator import Logits, drawn_token, random_numbers, sha256_of

ENCODER, DECODER = "encoder_model.onnx", "decoder_model.onnx"
_INPUTS = {
    ENCODER: {"input_ids", "attention_mask"},
    DECODER: {"input_ids", "encoder_hidden_states", "encoder_attention_mask"},
}
# Those of the authors.
TOP, PASSAGE_TOKENS, QUERY_TOKENS = 10, 512, 64


class _Config(BaseModel):
    model_config = ConfigDict(extra="ignore")

    decoder_start_token_id: int
    eos_token_id: int


class T5Generator:
    """Draws all queries of a passage in one batch.

    It keeps no keys and values: each step computes the tokens before it again, at most QUERY_TOKENS.
    """

    settings = f"T5, top {TOP}, {PASSAGE_TOKENS} and {QUERY_TOKENS} tokens"

    def __init__(self, folder: Path) -> None:
        """Opens the graphs. Raises EvaluationError."""
        try:
            self.weights_sha256 = sha256_of(
                [folder / name for name in (ENCODER, DECODER, "config.json", "tokenizer.json")]
            )
            self._config = _Config.model_validate_json((folder / "config.json").read_bytes())
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._encoder, self._decoder = (_opened(folder / name) for name in (ENCODER, DECODER))
        except Exception as error:  # those of ONNX Runtime and tokenizers have no base class of their own
            raise EvaluationError(f"{folder}: no encoder-decoder as Optimum exports it: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(PASSAGE_TOKENS)

    def generate(self, passage: str, count: int, seed: int) -> Sequence[str]:
        """Returns `count` queries, each up to the end token."""
        ids = np.array([self._tokenizer.encode(passage).ids], dtype=np.int64)
        mask = np.ones_like(ids)
        hidden = _run(self._encoder, {"input_ids": ids, "attention_mask": mask})
        beside: dict[str, NDArray[np.generic]] = {
            "encoder_hidden_states": np.repeat(hidden, count, axis=0),
            "encoder_attention_mask": np.repeat(mask, count, axis=0),
        }
        streams = random_numbers(passage, count, seed)
        read = np.full((count, 1), self._config.decoder_start_token_id, dtype=np.int64)
        ended = np.zeros(count, dtype=bool)
        while read.shape[1] <= QUERY_TOKENS and not ended.all():
            logits = _run(self._decoder, {"input_ids": read, **beside})[:, -1]
            drawn = [drawn_token(row, TOP, 1.0, random) for row, random in zip(logits, streams, strict=True)]
            read = np.hstack([read, np.array(drawn, dtype=np.int64)[:, None]])
            ended |= read[:, -1] == self._config.eos_token_id
        return [self._text(row) for row in read[:, 1:].tolist()]

    def _text(self, tokens: list[int]) -> str:
        end = self._config.eos_token_id
        return str(self._tokenizer.decode(tokens[: tokens.index(end)] if end in tokens else tokens))


def _opened(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    # With more, sums may be added in another order, and a draw near a bound differs.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    if (inputs := {each.name for each in session.get_inputs()}) != _INPUTS[path.name]:
        raise ValueError(f"{path.name} takes {', '.join(sorted(inputs))}, not {', '.join(sorted(_INPUTS[path.name]))}")
    return session


def _run(session: ort.InferenceSession, inputs: Mapping[str, NDArray[np.generic]]) -> Logits:
    output: Logits = session.run(None, dict(inputs))[0]
    return output
