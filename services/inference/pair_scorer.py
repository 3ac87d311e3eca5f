"""Scores query-passage pairs with a cross-encoder. Owns pairing and activation; running the graph is open_model's."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.contracts.rerank import LEAST_SCORED
from services.inference.model_tokenizer import Row
from services.inference.open_model import Engine, OpenModel
from services.inference.partial_scores import PartialScores
from services.inference.passage_id_cache import PassageIdCache
from services.inference.profiles import CrossEncoderProfile

Float32 = NDArray[np.float32]

# English has 4 to 5 characters a token. By twice as many, counts of tokens are lower bounds, and about twice as many
# passages are tokenised as can be scored.
CHARACTERS_PER_TOKEN = 4
MAX_CHARACTERS_PER_TOKEN = 8
# Re-ranking takes every core for as long as it is given. On a machine that also retrieves, retrieval goes first: an
# answer can do without a re-ranking, not without candidates. A tenth of the weight of an ordinary thread.
NICENESS = 10
# With less time left, a request does not measure whether the model has become faster: the next one does.
TRIAL_LEAST_S = 0.1


class PairScorer:
    """Scores passages with one model; implements the re-ranker's port, Scorer."""

    def __init__(
        self, profile: CrossEncoderProfile, folder: Path, engine: Engine | None = None, *, passage_bytes: int = 0
    ) -> None:
        """Opens the model in `folder` (blocking, below a second); raises ModelError when it is not the declared one.

        `passage_bytes`: size of the LRU cache of passages' token ids, which other queries use again.
        """
        self._postprocess = partial(_postprocess, profile=profile)
        self._model = OpenModel(profile, folder, engine or Engine(), inputs="passages", niceness=NICENESS)
        self._passages = PassageIdCache(self._model.tokenizer.ids, passage_bytes, profile.max_tokens)
        self.model = f"{profile.name}@{self._model.weights_sha256[:12]}"
        self.weight = profile.weight
        self.bounded = profile.activation == "sigmoid"
        self.max_tokens = profile.max_tokens

    async def score(self, query: str, passages: Sequence[str], deadline: Deadline | None = None) -> tuple[float, ...]:
        """Scores each passage, higher is better: a logit, or its sigmoid where the profile asks for it.

        Raises ModelError, DeadlineExceeded, Overloaded, Unavailable (while shutting down).
        """
        if not passages:
            return ()
        rows = await self._model.map_texts(passages, partial(self._rows, query), deadline, urgent=True)
        scores = await self._model.infer(rows, self._postprocess, deadline, urgent=False)
        return tuple(float(score) for score in scores)

    async def score_until(self, query: str, passages: Sequence[str], deadline: Deadline) -> PartialScores:
        """Scores as many passages as the deadline leaves time for, earlier ones first.

        None if fewer than LEAST_SCORED of more can be reached: the time goes to other requests. What can be reached is
        an upper bound, because tokens are counted from below: passages may be begun of which fewer are then scored.
        Returns at the deadline at the latest. Raises ModelError, Overloaded, Unavailable (while shutting down).
        """
        least = min(LEAST_SCORED, len(passages))
        scores: list[float | None] = [None] * len(passages)
        # Passages that the deadline leaves no time for are not tokenised either.
        at_least = self._tokens(query, passages, MAX_CHARACTERS_PER_TOKEN)
        reachable = self._model.count_reachable(at_least, deadline)
        trial = reachable < least and deadline.remaining_s >= TRIAL_LEAST_S and self._model.take_trial()
        if trial:
            reachable = least
        if reachable >= least:
            with suppress(DeadlineExceeded):
                first = passages[:reachable]
                rows = await self._model.map_texts(first, partial(self._rows, query), deadline, urgent=True)
                found = await self._model.infer_until(rows, self._postprocess, deadline, trial=trial)
                scores[: len(found)] = [None if score is None else float(score) for score in found]
        if len(scores) - scores.count(None) >= least:
            return PartialScores(tuple(scores))
        needed = self._tokens(query, passages[:least], CHARACTERS_PER_TOKEN)
        return PartialScores(tuple(scores), self._model.seconds_if_idle(needed))

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline | None = None) -> tuple[int, ...]:
        """Counts the tokens of each pair before truncation, with special tokens; raises like score."""

        def lengths_of(chunk: list[str]) -> list[int]:
            query_ids, *others = self._model.tokenizer.ids([query, *chunk])
            return [self._model.tokenizer.pair_length(query_ids, ids) for ids in others]

        return tuple(await self._model.map_texts(passages, lengths_of, deadline, urgent=True)) if passages else ()

    async def close(self) -> None:
        """Stops the threads after their current micro-batches."""
        self._model.close()

    def _tokens(self, query: str, passages: Sequence[str], characters: int) -> list[int]:
        """Estimates the tokens of each pair, at so many characters a token."""
        return [min(self.max_tokens, (len(query) + len(passage)) // characters) for passage in passages]

    def _rows(self, query: str, passages: list[str]) -> list[Row]:
        (query_ids,) = self._model.tokenizer.ids([query])
        # longest_first compares full lengths, and the cache keeps only the first max_tokens ids of a passage: beside a
        # query that is longer than that, passages are tokenised in full.
        tokenise = self._passages.token_ids if len(query_ids) <= self.max_tokens else self._model.tokenizer.ids
        return [self._model.tokenizer.pair(query_ids, ids) for ids in tokenise(passages)]


def scores_from_logits(logits: Float32, profile: CrossEncoderProfile) -> Float32:
    """Converts `logits` [rows, 1] or [rows, 2] to one score a row: fp32 [rows].

    Two logits [irrelevant, relevant] are subtracted: the sigmoid of the difference is the softmax of `relevant`.
    """
    values = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    match profile.activation:
        case "none":
            return values
        case "sigmoid":
            # By tanh: 1 / (1 + exp(-x)) overflows for large negative logits.
            return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)), dtype=np.float32)


def _postprocess(logits: Float32, _rows: Sequence[Row], profile: CrossEncoderProfile) -> Float32:
    return scores_from_logits(logits, profile)
