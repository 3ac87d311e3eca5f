"""Encodes texts by an HTTP API, in the dialect of OpenAI or of Text Embeddings Inference (TEI)."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from services.chassis.deadlines import Deadline
from services.chassis.errors import UpstreamFailed
from services.contracts.passages import Passages
from services.dense.encoder import Role, Vectors, normalised
from services.dense.settings import DenseSettings
from services.dialects.hosted_api import HostedApi, by_index
from services.inference.passages import count_words, cut_words
from services.storage.representation import Dense, DenseVector

START_MS = 30_000


class HostedEncoder:
    """Implements DenseEncoder over an API; its vectors are scaled to length 1.

    The API must make a vector depend on its text only. A blank text, which APIs refuse, has the zero vector. An API
    reports neither token counts nor its limit: lengths are in words, and no text counts as cut.
    Its methods raise what HostedApi does.
    """

    max_tokens = 2**31 - 1

    def __init__(self, settings: DenseSettings) -> None:
        """Requests one vector unless the settings have the dimension (blocking, START_MS at most).

        Raises ConfigurationError for a file without an authority.
        """
        self._settings = settings
        self._api = self._open()
        self._prefixes: dict[Role, str] = {"query": settings.api_query_prefix, "passage": settings.api_passage_prefix}
        dimension = settings.api_dimension
        if dimension is None:
            with ThreadPoolExecutor(1) as thread:  # the loop of this one may be running
                dimension = thread.submit(asyncio.run, self._dimension()).result()
        self.representation = Dense(dimension)
        self.stamp = {
            "model": settings.model,
            "weights_sha256": "unknown",
            "api": self._api.address,  # its last part is of the dialect
            "dimension": str(dimension),
            "normalise": "true",
            "query_prefix": settings.api_query_prefix,
            "passage_prefix": settings.api_passage_prefix,
        }

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """Encodes one query: fp32 [dimension]. Waits for no passages."""
        return np.asarray((await self._encode([text], "query", deadline))[0])

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """Encodes the passages: fp32 [passages, dimension]."""
        return await self._encode(texts, "passage", deadline)

    async def cut(
        self, documents: Sequence[tuple[str, str]], passages: Passages, deadline: Deadline
    ) -> list[list[str]]:
        """Cuts documents, each a title and a text, into passages of so many words."""
        return await asyncio.to_thread(lambda: [cut_words(*document, passages) for document in documents])

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        return await asyncio.to_thread(lambda: tuple(map(count_words, texts)))

    async def close(self) -> None:
        await self._api.close()

    async def _encode(self, texts: Sequence[str], role: Role, deadline: Deadline) -> Vectors:
        vectors = np.zeros((len(texts), self.representation.dimension), dtype=np.float32)
        body = partial(self._body, self._prefixes[role])
        await self._api.fill(vectors, texts, body, deadline, waits=role == "passage")
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        # Of this size no length overflows or vanishes.
        return normalised(np.asarray(vectors / np.where(largest > 0, largest, 1), dtype=np.float32))

    def _body(self, prefix: str, texts: Sequence[str]) -> dict[str, object]:
        prefixed = [prefix + text for text in texts]
        if self._settings.encoder == "openai":
            body: dict[str, object] = {"model": self._settings.model, "input": prefixed, "encoding_format": "float"}
        else:
            body = {"inputs": prefixed, "truncate": True, "normalize": True}
        if self._settings.api_dimension is not None:
            body["dimensions"] = self._settings.api_dimension
        return body

    def _open(self) -> HostedApi:
        if self._settings.encoder == "openai":
            return HostedApi(self._settings, "embeddings", lambda answer: by_index(answer["data"], "embedding"))
        return HostedApi(self._settings, "embed", lambda answer: answer)

    async def _dimension(self) -> int:
        api = self._open()  # with connections of this loop
        try:
            vectors = await api.ask(self._body("", ["dimension"]), Deadline.after_ms(START_MS))
            if vectors.ndim != 2 or not vectors.size:
                raise UpstreamFailed(f"{api.name} did not answer with one vector per text.")
            return len(vectors[0])
        finally:
            await api.close()
