"""Encodes texts by an HTTP API, in the dialect of OpenAI or of Text Embeddings Inference (TEI)."""

import asyncio
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from operator import itemgetter

import aiohttp
import httpx
import numpy as np
import orjson
from httpx_aiohttp import AiohttpTransport

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, DeadlineExceeded, Overloaded, ProblemError, Unavailable, UpstreamFailed
from services.chassis.settings.configuration import variable
from services.chassis.settings.trust import certificate_fault, context_for
from services.contracts.passages import Passages
from services.dense.encoder import Role, Vectors, normalised
from services.dense.settings import DenseSettings
from services.inference.passages import count_words, cut_words
from services.storage.representation import Dense, DenseVector

START_MS = 30_000
# Seconds before a retry without Retry-After. They double.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 8.0


class HostedEncoder:
    """Implements DenseEncoder over an API; its vectors are scaled to length 1.

    The API must make a vector depend on its text only. A blank text, which APIs refuse, has the zero vector. An API
    reports neither token counts nor its limit: lengths are in words, and no text counts as cut.

    Its methods raise Unavailable (the API cannot be reached), Overloaded (busy up to the deadline), BadInput (it
    refuses the texts), and UpstreamFailed (it refuses the key, or does not return one finite vector per text).
    """

    max_tokens = 2**31 - 1

    def __init__(self, settings: DenseSettings) -> None:
        """Requests one vector unless the settings have the dimension (blocking, START_MS at most).

        Raises ConfigurationError for a file without an authority.
        """
        self._settings = settings
        self._names = {field: variable(type(settings), field) for field in type(settings).model_fields}
        self._api = f"The API of {self._names['api_url']}"
        self._url = f"{settings.api_url}/{'embeddings' if settings.encoder == 'openai' else 'embed'}"
        self._key = settings.api_key.get_secret_value() if settings.api_key else None
        self._prefixes: dict[Role, str] = {"query": settings.api_query_prefix, "passage": settings.api_passage_prefix}
        self._passage_slots = asyncio.Semaphore(settings.api_in_flight)
        self._http = self._connections()
        dimension = settings.api_dimension
        if dimension is None:
            with ThreadPoolExecutor(1) as thread:  # the loop of this one may be running
                dimension = thread.submit(asyncio.run, self._dimension()).result()
        self.representation = Dense(dimension)
        self.stamp = {
            "model": settings.model,
            "weights_sha256": "unknown",
            "api": str(httpx.URL(self._url)),  # its last part is of the dialect; settings refuse queries and passwords
            "dimension": str(dimension),
            "normalise": "true",
            "query_prefix": settings.api_query_prefix,
            "passage_prefix": settings.api_passage_prefix,
        }

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """Encodes one query: fp32 [dimension]. Waits for no passages."""
        vectors = await self._encode([text], "query", nullcontext(), deadline)
        return np.asarray(vectors[0])

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """Encodes the passages: fp32 [passages, dimension]."""
        return await self._encode(texts, "passage", self._passage_slots, deadline)

    async def cut(
        self, documents: Sequence[tuple[str, str]], passages: Passages, deadline: Deadline
    ) -> list[list[str]]:
        """Cuts documents, each a title and a text, into passages of so many words."""
        return await asyncio.to_thread(lambda: [cut_words(*document, passages) for document in documents])

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        """Counts the words of each text."""
        return await asyncio.to_thread(lambda: tuple(map(count_words, texts)))

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def _encode(
        self, texts: Sequence[str], role: Role, slots: AbstractAsyncContextManager[None], deadline: Deadline
    ) -> Vectors:
        dimension = self.representation.dimension
        vectors = np.zeros((len(texts), dimension), dtype=np.float32)
        places = [place for place, text in enumerate(texts) if text.strip()]

        async def fill(part: Sequence[int]) -> None:
            prefixed = [self._prefixes[role] + texts[place] for place in part]
            async with slots:
                rows = await self._vectors(self._http, prefixed, deadline)
            if rows.shape[1] != dimension:
                raise UpstreamFailed(f"{self._api} answered with {rows.shape[1]} dimensions instead of {dimension}.")
            vectors[part] = normalised(rows)

        batch = self._settings.api_batch
        tasks = [asyncio.create_task(fill(places[at : at + batch])) for at in range(0, len(places), batch)]
        try:
            async with asyncio.timeout(deadline.remaining_s):
                await asyncio.gather(*tasks)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{self._api} did not answer in time; send a larger X-Deadline-Ms.") from error
        finally:
            for task in tasks:
                task.cancel()
        return vectors

    async def _vectors(self, http: httpx.AsyncClient, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """Returns the vectors of the API: fp32 [texts, dimension]. Retries while it is busy and time is left."""
        if self._settings.encoder == "openai":
            body: dict[str, object] = {"model": self._settings.model, "input": texts, "encoding_format": "float"}
        else:
            body = {"inputs": texts, "truncate": True, "normalize": True}
        if self._settings.api_dimension is not None:
            body["dimensions"] = self._settings.api_dimension
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with asyncio.timeout(self._settings.api_timeout_s):
                    answer = await http.post(self._url, json=body)
            except TimeoutError:
                fault: ProblemError = Unavailable(f"{self._api} did not answer within {self._names['api_timeout_s']}.")
            except (httpx.DecodingError, aiohttp.ClientResponseError) as error:
                raise UpstreamFailed(f"{self._api} does not answer in HTTP; is its address right?") from error
            except httpx.TransportError as error:
                # Without the client's own message, which has addresses.
                reason = certificate_fault(error) or type(error.__cause__ or error).__name__
                trust = f"is its certificate one of the authority in {self._names['api_ca_file']}"
                fault = Unavailable(f"{self._api} cannot be reached ({reason}). Is it running there, and {trust}?")
                if isinstance(error.__cause__, aiohttp.ClientConnectorError):  # httpx_aiohttp names it ConnectTimeout
                    raise fault from error
            else:
                if answer.status_code == 200:
                    return self._read(answer.content, len(texts))
                fault = self._refusal(answer)
            # At random, so that batches do not retry at the same time.
            wait_s = max(fault.retry_after_s or 0, random.uniform(pause_s / 2, pause_s))
            if fault.status not in (Overloaded.status, Unavailable.status) or wait_s >= deadline.remaining_s:
                raise fault
            await asyncio.sleep(wait_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _read(self, content: bytes, texts: int) -> Vectors:
        try:
            answer = orjson.loads(content)
            if self._settings.encoder == "openai":
                items = sorted(answer["data"], key=itemgetter("index"))
                answer = [item["embedding"] for place, item in enumerate(items) if item["index"] == place]
            with np.errstate(over="ignore"):
                vectors = np.asarray(answer, dtype=np.float32)
        except (KeyError, TypeError, ValueError) as error:
            raise UpstreamFailed(f"{self._api} did not answer with one vector per text.") from error
        if vectors.ndim != 2 or len(vectors) != texts or not vectors.size or not np.isfinite(vectors).all():
            raise UpstreamFailed(f"{self._api} did not answer one vector of finite numbers for each of {texts} texts.")
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        # Of this size no length overflows or vanishes.
        return np.asarray(vectors / np.where(largest > 0, largest, 1), dtype=np.float32)

    def _refusal(self, answer: httpx.Response) -> ProblemError:
        status, after = answer.status_code, answer.headers.get("retry-after", "")
        after_s = int(after) if after.isascii() and after.isdigit() and len(after) < 6 else None
        if status == Overloaded.status:
            return Overloaded(f"{self._api} refuses more requests; try again later.", retry_after_s=after_s or 1)
        if status >= 500:
            return Unavailable(f"{self._api} is not available (HTTP {status}); try again later.", retry_after_s=after_s)
        if status in (401, 403):
            return UpstreamFailed(f"{self._api} refuses the key: set {self._names['api_key']} to one that it takes.")
        message = " ".join(answer.text.replace(self._key or "\0", "…").split())[:300]
        if status in (400, 413, 422):
            return BadInput(f"{self._api} refuses the texts (HTTP {status}): {message}")
        return UpstreamFailed(f"{self._api} answered with HTTP {status}: {message}")

    async def _dimension(self) -> int:
        async with self._connections() as http:
            return int((await self._vectors(http, ["dimension"], Deadline.after_ms(START_MS))).shape[1])

    def _connections(self) -> httpx.AsyncClient:
        url, ca_file = self._url, self._settings.api_ca_file
        return httpx.AsyncClient(
            # httpx's own pool dies after cancellations (encode/httpcore 1093).
            transport=AiohttpTransport(verify=context_for(url, ca_file, self._names["api_ca_file"])),
            headers={} if self._key is None else {"authorization": f"Bearer {self._key}"},
            timeout=None,  # of a whole call instead
            trust_env=False,
        )
