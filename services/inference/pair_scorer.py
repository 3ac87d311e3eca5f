"""Scores query-passage pairs with a cross-encoder. Owns pairing and activation; running the graph is open_model's."""

import hashlib
import threading
from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, islice
from pathlib import Path

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.contracts.passages import Passages
from services.contracts.rerank import LEAST_SCORED
from services.inference.model_tokenizer import Row
from services.inference.open_model import Engine, OpenModel, Postprocess
from services.inference.partial_scores import PartialScores
from services.inference.passages import CHARACTERS_PER_TOKEN, MOST_PASSAGES, Split, cut_tokens
from services.inference.profiles import CrossEncoderProfile

Tokenise = Callable[[Sequence[str]], list[list[int]]]

# Bytes of an entry besides its ids: key, array header, three dictionaries of the cache (CPython 3.11, 64 bits).
ENTRY_BYTES = 345


class PassageIdCache:
    """Keeps at most `max_bytes` of token ids and evicts the least recently used passage. Thread-safe.

    Keeps at most `max_ids` ids per passage, because the model truncates the rest, or as many as a call asks for.
    """

    def __init__(self, tokenise: Tokenise, max_bytes: int, max_ids: int) -> None:
        self._tokenise = tokenise
        self._max_ids = max_ids
        self._entries: LRUCache[bytes, array[int]] = LRUCache(max_bytes, getsizeof=_size)
        self._lock = threading.Lock()

    @property
    def used_bytes(self) -> int:
        """Computed size of all entries, in bytes."""
        return int(self._entries.currsize)

    def token_ids(self, passages: Sequence[str], max_ids: int | None = None) -> list[list[int]]:
        """Returns the first `max_ids` token ids of each passage, equal to those of a new tokenisation."""
        most = max_ids or self._max_ids
        keys = [_key(passage, most) for passage in passages]
        with self._lock:
            known = {key: ids for key in keys if (ids := self._entries.get(key)) is not None}
        # Tokenised outside the lock, so that other threads can go on.
        missing = {key: passage for key, passage in zip(keys, passages, strict=True) if key not in known}
        if missing:
            tokenised = self._tokenise(list(missing.values()))
            fresh = {key: _packed(ids[:most]) for key, ids in zip(missing, tokenised, strict=True)}
            known |= fresh
            self._store(fresh)
        return [known[key].tolist() for key in keys]

    def _store(self, fresh: Mapping[bytes, "array[int]"]) -> None:
        with self._lock:
            for key, ids in fresh.items():
                if _size(ids) <= self._entries.maxsize:
                    self._entries[key] = ids


def _key(passage: str, most: int) -> bytes:
    # surrogatepass: UTF-8 has no lone surrogates, but two texts that differ in one need different keys.
    content = passage.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16, salt=most.to_bytes(8, "little")).digest()


def _packed(ids: Sequence[int]) -> "array[int]":
    return array("H" if max(ids, default=0) < 65_536 else "I", ids)


def _size(ids: "array[int]") -> int:
    return ENTRY_BYTES + len(ids) * ids.itemsize


Float32 = NDArray[np.float32]

# Twice CHARACTERS_PER_TOKEN, so that counts are lower bounds: about twice as many passages are tokenised as scored.
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
        self._postprocess: Postprocess = lambda logits, _: scores_from_logits(logits, profile)
        self._model = OpenModel(profile, folder, engine or Engine(), inputs="passages", niceness=NICENESS)
        self._passages = PassageIdCache(self._model.tokenizer.ids, passage_bytes, profile.max_tokens)
        self.model = f"{profile.name}@{self._model.weights_sha256[:12]}"
        self.weight = profile.weight
        self.bounded = profile.activation == "sigmoid"
        self.max_tokens = profile.max_tokens

    async def score(
        self, query: str, passages: Sequence[str], deadline: Deadline | None = None, split: Split | None = None
    ) -> tuple[float, ...]:
        """Scores each passage, higher is better: a logit, or its sigmoid where the profile asks for it.

        With `split` the score is that of its best part (MaxP, services/inference/passages.py). Where the query leaves
        less room than a part may have, parts are shorter, so that no token of them is truncated.
        Raises ModelError, DeadlineExceeded, Overloaded, Unavailable (while shutting down).
        """
        if not passages:
            return ()
        parts = await self._parts(query, passages, split, deadline)
        scores = iter(await self._model.infer([*chain(*parts)], self._postprocess, deadline))
        return tuple(float(max(islice(scores, len(rows)))) for rows in parts)

    async def score_until(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> PartialScores:
        """Scores as many passages as the deadline leaves time for, earlier ones first.

        None, and at once, if fewer than LEAST_SCORED of more can be reached: the time goes to other requests. They are
        counted twice: by a lower bound of the tokens, so that few passages are tokenised, then by the tokens.
        With `split`, a passage costs the tokens of all its parts, and has no score if one of them has none.
        Returns at the deadline at the latest. Raises ModelError, Overloaded, Unavailable (while shutting down).
        """
        least = min(LEAST_SCORED, len(passages))
        scores: list[float | None] = [None] * len(passages)
        # Passages that the deadline leaves no time for are not tokenised either.
        at_least = self._tokens(query, passages, MAX_CHARACTERS_PER_TOKEN, split)
        reachable = self._reachable(at_least, deadline)
        trial = reachable < least and self._takes_trial(deadline)
        if reachable >= least or trial:
            reachable = max(reachable, least)
            with suppress(DeadlineExceeded):
                parts = await self._parts(query, passages[:reachable], split and split.of(range(reachable)), deadline)
                lengths = [[len(row.ids) for row in part] for part in parts]
                fits = self._reachable(lengths, deadline) >= least
                trial = trial or (not fits and self._takes_trial(deadline))
                if fits or trial:
                    rows, sizes = [*chain(*parts)], [len(part) for part in parts]
                    found = iter(await self._model.infer_until(rows, self._postprocess, sizes, deadline, trial=trial))
                    scores[:reachable] = [_best(tuple(islice(found, size))) for size in sizes]
        if len(scores) - scores.count(None) >= least:
            return PartialScores(tuple(scores))
        needed = self._tokens(query, passages[:least], CHARACTERS_PER_TOKEN, split)
        return PartialScores(tuple(scores), self._model.seconds_if_idle([*chain(*needed)]))

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline | None = None) -> tuple[int, ...]:
        """Counts the tokens of each pair before truncation, with special tokens; raises like score."""

        def lengths_of(chunk: list[str]) -> list[int]:
            query_ids, *others = self._model.tokenizer.ids([query, *chunk])
            return [self._model.tokenizer.pair_length(query_ids, ids) for ids in others]

        return tuple(await self._model.map_texts(passages, lengths_of, deadline, urgent=True)) if passages else ()

    async def close(self) -> None:
        """Stops the threads after their current micro-batches."""
        self._model.close()

    def _takes_trial(self, deadline: Deadline) -> bool:
        return deadline.remaining_s >= TRIAL_LEAST_S and self._model.token_time.take_trial()

    def _reachable(self, tokens: Sequence[Sequence[int]], deadline: Deadline) -> int:
        """Estimates how many of the first passages the deadline leaves time for, each of parts with so many tokens."""
        rows = self._model.count_reachable([*chain(*tokens)], deadline)
        return bisect_right([*accumulate(map(len, tokens))], rows)

    def _tokens(self, query: str, passages: Sequence[str], characters: int, split: Split | None) -> list[list[int]]:
        """Estimates the tokens of the pairs that each passage needs, at so many characters per token."""
        if split is None:
            return [[min(self.max_tokens, (len(query) + len(passage)) // characters)] for passage in passages]
        of_query = min(len(query) // characters, self.max_tokens // 2)
        size, overlap = min(split.passages.tokens, self.max_tokens - of_query), split.passages.overlap
        cuts = (
            cut_tokens(len(passage) // characters, title // characters, size, overlap, MOST_PASSAGES)
            for passage, title in zip(passages, split.titles, strict=True)
        )
        return [[of_query + cut.front + len(tokens) for tokens in cut.ranges] for cut in cuts]

    async def _parts(
        self, query: str, passages: Sequence[str], split: Split | None, deadline: Deadline | None
    ) -> list[list[Row]]:
        """Returns the rows of each passage: one, or one for each of its parts."""
        if split is None:
            rows = await self._model.map_texts(passages, partial(self._rows, query), deadline, urgent=True)
            return [[row] for row in rows]
        titled = list(zip(passages, split.titles, strict=True))
        return await self._model.map_texts(
            titled, partial(self._split_rows, query, split.passages), deadline, urgent=True
        )

    def _split_rows(self, query: str, passages: Passages, titled: list[tuple[str, int]]) -> list[list[Row]]:
        tokenizer = self._model.tokenizer
        query_ids, *titles = tokenizer.ids([query, *(text[:title] for text, title in titled)])
        size = min(passages.tokens, tokenizer.pair_room(query_ids))
        rows = []
        every = self._passages.token_ids([text for text, _ in titled], MOST_PASSAGES * self.max_tokens)
        for ids, title in zip(every, titles, strict=True):
            cut = cut_tokens(len(ids), len(title), size, passages.overlap, MOST_PASSAGES)
            parts = ([*ids[: cut.front], *ids[tokens.start : tokens.stop]] for tokens in cut.ranges)
            rows.append([tokenizer.pair(query_ids, part) for part in parts])
        return rows

    def _rows(self, query: str, passages: list[str]) -> list[Row]:
        (query_ids,) = self._model.tokenizer.ids([query])
        # longest_first compares full lengths, and the cache keeps only the first max_tokens ids of a passage: beside a
        # query that is longer than that, passages are tokenised in full.
        tokenise = self._passages.token_ids if len(query_ids) <= self.max_tokens else self._model.tokenizer.ids
        return [self._model.tokenizer.pair(query_ids, ids) for ids in tokenise(passages)]


def scores_from_logits(logits: Float32, profile: CrossEncoderProfile) -> Float32:
    """Converts `logits` [rows, 1] or [rows, 2] to one score per row: fp32 [rows].

    Two logits [irrelevant, relevant] are subtracted: the sigmoid of the difference is the softmax of `relevant`.
    """
    values = logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]
    match profile.activation:
        case "none":
            return values
        case "sigmoid":
            # By tanh: 1 / (1 + exp(-x)) overflows for large negative logits.
            return np.asarray(0.5 * (1.0 + np.tanh(0.5 * values)), dtype=np.float32)


def _best(scores: Sequence[Float32 | None]) -> float | None:
    """Returns the best score of a passage's parts; None if one was not scored."""
    known = [float(score) for score in scores if score is not None]
    return max(known) if len(known) == len(scores) else None
