"""A cross-encoder as a function: a query and passages in, one score a passage out."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.inference.model_tokenizer import Row
from services.inference.open_model import Engine, OpenModel
from services.inference.passage_id_cache import PassageIds
from services.inference.profiles import CrossEncoderProfile

Float32 = NDArray[np.float32]

# English has 4 to 5 characters a token, so a depth judged by this is about twice what there is time for.
MOST_CHARACTERS_A_TOKEN = 8


class PairScorer:
    """An open cross-encoder; it keeps the promises of the re-ranker's port, Scorer."""

    def __init__(
        self, profile: CrossEncoderProfile, folder: Path, engine: Engine | None = None, *, passage_bytes: int = 0
    ) -> None:
        """Opens the model in `folder` (blocking, below a second); raises ModelError when it is not the declared one.

        `passage_bytes`: memory for the token ids of passages, which come again with other queries.
        """
        self._finish = partial(_finished, profile=profile)
        self._model = OpenModel(profile, folder, engine or Engine(), inputs="passages")
        self._passages = PassageIds(self._model.tokens.ids, passage_bytes, profile.max_tokens)
        self.model = f"{profile.name}@{self._model.weights_sha256[:12]}"
        self.weight = profile.weight
        self.bounded = profile.activation == "sigmoid"
        self.max_tokens = profile.max_tokens

    async def score(self, query: str, passages: Sequence[str], deadline: Deadline | None = None) -> tuple[float, ...]:
        """Scores each passage, higher is better: a logit, or its sigmoid where the profile says so.

        Raises ModelError, DeadlineExceeded, Overloaded, Unavailable (while shutting down).
        """
        if not passages:
            return ()
        rows = await self._model.rows(passages, partial(self._rows, query), deadline, urgent=True)
        scores = await self._model.results(rows, self._finish, deadline, urgent=False)
        return tuple(scores.tolist())

    async def score_until(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float | None, ...]:
        """Scores as many passages as there is time for, earlier ones first; None for the others.

        Returns at the deadline at the latest. Raises ModelError, Overloaded, Unavailable (while shutting down).
        """
        # Tokenising what cannot be reached would take the time of what can; characters bound the tokens from below.
        least = [min(self.max_tokens, (len(query) + len(passage)) // MOST_CHARACTERS_A_TOKEN) for passage in passages]
        near = passages[: self._model.reach(least, deadline)]
        unscored: list[float | None] = [None] * len(passages)
        try:
            rows = await self._model.rows(near, partial(self._rows, query), deadline, urgent=True)
        except DeadlineExceeded:
            return tuple(unscored)
        found = await self._model.results_until(rows, self._finish, deadline)
        unscored[: len(found)] = [None if score is None else float(score) for score in found]
        return tuple(unscored)

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline | None = None) -> tuple[int, ...]:
        """Counts the tokens of each pair, the special ones among them, before anything is cut; raises as score."""

        def lengths_of(chunk: list[str]) -> list[int]:
            first, *others = self._model.tokens.ids([query, *chunk])
            return [self._model.tokens.pair_length(first, ids) for ids in others]

        return tuple(await self._model.rows(passages, lengths_of, deadline, urgent=True)) if passages else ()

    async def close(self) -> None:
        """Stops the threads after the micro-batches that they are in."""
        self._model.close()

    def _rows(self, query: str, passages: list[str]) -> list[Row]:
        (first,) = self._model.tokens.ids([query])
        # Which of two texts is cut depends on the longer one: beside such a query a passage must be known in full.
        known = self._passages.of if len(first) <= self.max_tokens else self._model.tokens.ids
        return [self._model.tokens.pair(first, ids) for ids in known(passages)]


def activated(logits: Float32, profile: CrossEncoderProfile) -> Float32:
    """One score a row of `logits` [rows, 1] or [rows, 2]: fp32 [rows].

    Of two logits, [irrelevant, relevant], the difference is taken: its sigmoid is the softmax share of `relevant`.
    """
    values = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    match profile.activation:
        case "none":
            return values
        case "sigmoid":
            # By tanh: the usual formula overflows for large negative logits.
            return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)), dtype=np.float32)


def _finished(logits: Float32, _lengths: Sequence[int], profile: CrossEncoderProfile) -> Float32:
    return activated(logits, profile)
