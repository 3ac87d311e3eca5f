"""Asks a server of `/embed_sparse`, ours or Text Embeddings Inference, for the weights of word pieces in passages."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from evaluator.client.gateway_access import read_access
from evaluator.errors import EvaluationError

ANSWER_WITHIN_S = 120.0
# A model reads 512 word pieces; no passage has as many characters before them.
MOST_CHARACTERS = 20_000


class _PieceWeight(BaseModel):
    index: int
    value: float


_ANSWER = TypeAdapter(list[list[_PieceWeight]])


class SparseService:
    """Keeps a client of one server."""

    def __init__(self, url: str, http: httpx.AsyncClient) -> None:
        self._url = url
        self._http = http

    async def model(self) -> str:
        """Returns name and hash of the server's model, `NAME@SHA256`."""
        return str((await self._ask(["model"])).headers.get("x-model", ""))

    async def weights(self, passages: Sequence[str]) -> list[Mapping[int, float]]:
        """Returns the weight of each word piece, by its number, that the model gives to each passage."""
        answer = await self._ask([passage[:MOST_CHARACTERS] for passage in passages])
        try:
            vectors = _ANSWER.validate_json(answer.content)
        except ValidationError as error:
            raise EvaluationError(f"{self._url}: what answers there is no server of /embed_sparse") from error
        if len(vectors) != len(passages):
            raise EvaluationError(f"{self._url}: answered {len(vectors)} vectors for {len(passages)} passages")
        return [{weight.index: weight.value for weight in vector} for vector in vectors]

    async def _ask(self, passages: Sequence[str]) -> httpx.Response:
        try:
            answer = await self._http.post("/embed_sparse", json={"inputs": passages, "truncate": True})
        except httpx.HTTPError as error:
            raise EvaluationError(
                f"{self._url} cannot be asked ({type(error).__name__}): start the sparse service there, or name "
                "another by --sparse"
            ) from error
        if not answer.is_success:
            raise EvaluationError(
                f"{self._url}: HTTP {answer.status_code} of /embed_sparse: {answer.text[:200]} (the same command goes "
                "on where it stood)"
            )
        return answer


@asynccontextmanager
async def sparse_service(url: str, transport: httpx.AsyncBaseTransport | None = None) -> AsyncIterator[SparseService]:
    """Opens connections to a server, with the key that the gateway gets."""
    access = read_access()
    async with httpx.AsyncClient(
        base_url=url,
        headers=access.headers(url),
        timeout=ANSWER_WITHIN_S,
        trust_env=False,
        transport=transport,
        verify=access.context(url),
    ) as http:
        yield SparseService(url, http)
