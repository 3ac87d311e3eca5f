"""Scores by an HTTP API, in the dialect of Cohere or of Text Embeddings Inference (TEI)."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, chain, repeat, takewhile

import numpy as np

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded, Overloaded, UpstreamFailed
from services.dialects.hosted_api import HostedApi, by_index
from services.inference.partial_scores import PartialScores
from services.inference.passages import Split, count_words, cut_passages
from services.reranker.dialects.cohere import DOCUMENTS_A_SEARCH_UNIT
from services.reranker.settings import RerankerSettings


class HostedScorer:
    """Implements Scorer over an API whose score of a text depends on the query and that text only.

    Lengths and parts are in words; a blank passage has the score 0. PartialScores name no time that more scores need:
    how fast an idle API is remains unknown. Its methods raise what HostedApi does.
    """

    bounded = True
    max_tokens = 4_096  # Cohere reads so many tokens of a document, most models behind TEI fewer

    def __init__(self, settings: RerankerSettings) -> None:
        """Raises ConfigurationError for a file without an authority."""
        self._settings = settings
        if settings.scorer == "cohere":
            unit = DOCUMENTS_A_SEARCH_UNIT
            self._api = HostedApi(settings, "v2/rerank", lambda one: by_index(one["results"], "relevance_score"), unit)
        else:
            self._api = HostedApi(settings, "rerank", lambda one: by_index(one, "score"))
        self.model = f"{settings.model}@api"
        self.weight = settings.api_weight

    async def score(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> tuple[float, ...]:
        """Returns one score for each passage, or its best part: 0 to 1."""
        scores = await self._scored(query, passages, deadline, split)
        if len(scores) < len(passages):
            raise DeadlineExceeded(f"{self._api.name} did not answer in time; send a larger X-Deadline-Ms.")
        return tuple(scores)

    async def score_until(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> PartialScores:
        """Returns the scores that came by the deadline, None behind the first passage without one."""
        scores = await self._scored(query, passages, deadline, split)
        return PartialScores((*scores, *repeat(None, len(passages) - len(scores))))

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Counts the words of the query and each passage together."""
        return await asyncio.to_thread(lambda: tuple(count_words(f"{query} {passage}") for passage in passages))

    async def close(self) -> None:
        await self._api.close()

    async def _scored(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None
    ) -> list[float]:
        crowded = self._api.slots.locked()
        parts = await asyncio.to_thread(cut_passages, passages, split, self.max_tokens)
        scores = np.full(sum(map(len, parts)), np.nan, dtype=np.float32)
        with suppress(DeadlineExceeded):
            await self._api.fill(scores, [*chain(*parts)], partial(self._body, query), deadline)
        if ((scores < 0) | (scores > 1)).any():
            raise UpstreamFailed(f"{self._api.name} did not answer with scores from 0 to 1.")
        # NaN, where one part has no score.
        best = np.maximum.reduceat(scores, [0, *accumulate(map(len, parts[:-1]))]).tolist()
        # A later batch may come before an earlier one: alone, its passages would rank above better ones.
        known = [*takewhile(lambda score: score >= 0, best)]
        if crowded and not known:
            raise Overloaded(f"{self._api.name} has as many requests as it may have; try again later.")
        return known

    def _body(self, query: str, texts: Sequence[str]) -> dict[str, object]:
        if self._settings.scorer == "cohere":
            return {"model": self._settings.model, "query": query, "documents": texts, "top_n": len(texts)}
        return {"query": query, "texts": texts, "raw_scores": False, "truncate": True}
