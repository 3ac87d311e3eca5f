"""An API that gives scripted answers in a vendor's dialect, and those of our engines that are its clients."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from services.chassis.deadlines import Deadline
from services.dense.app import open_encoder
from services.dense.settings import DenseSettings
from services.reranker.app import open_scorer
from services.reranker.settings import RerankerSettings
from tests.support.passages import QUERY
from tests.support.served import served

KEY = "sk-hosted-0123456789"
Settings = DenseSettings | RerankerSettings
# Asks for the numbers of texts.
Ask = Callable[[Sequence[str], Deadline], Any]


@dataclass(frozen=True)
class Dialect:
    """A route of an API. `items` lays out the items of an answer, each with its index and its number in `field`."""

    settings: type[DenseSettings] | type[RerankerSettings]
    engine: str
    base: str
    route: str
    texts: str
    field: str
    number: Any
    items: Callable[[Any], Any]

    def hosted(self, url: str, **more: Any) -> Any:
        """The settings of our client of the API at an address."""
        of_engine = (
            {"encoder": self.engine, "api_dimension": 2} if self.settings is DenseSettings else {"scorer": self.engine}
        )
        return self.settings(**({"api_url": f"{url}{self.base}", "model": "theirs"} | of_engine | more))

    def answer(self, *numbers: Any) -> Response:
        """The answer with these numbers, in another order than the texts."""
        rows = [{"index": place, self.field: number} for place, number in enumerate(numbers)]
        return JSONResponse(self.items(rows[::-1]))

    def right(self, texts: int) -> Response:
        return self.answer(*[self.number] * texts)

    @property
    def prefix(self) -> str:
        """What begins the variables of its settings."""
        return "DENSE" if self.settings is DenseSettings else "RERANKER"


OPENAI = Dialect(
    DenseSettings, "openai", "/v1", "/v1/embeddings", "input", "embedding", [3.0, 4.0], lambda rows: {"data": rows}
)
COHERE = Dialect(
    RerankerSettings, "cohere", "", "/v2/rerank", "documents", "relevance_score", 0.5, lambda rows: {"results": rows}
)
TEI_RERANK = Dialect(RerankerSettings, "tei", "", "/rerank", "texts", "score", 0.5, lambda rows: rows)
DIALECTS = {"openai": OPENAI, "cohere": COHERE, "tei": TEI_RERANK}


@asynccontextmanager
async def asking(settings: Settings) -> AsyncIterator[Ask]:
    """The engine of the settings, as a function of texts and deadline."""
    engine: Any = open_encoder(settings) if isinstance(settings, DenseSettings) else open_scorer(settings)
    try:
        yield engine.encode_passages if isinstance(settings, DenseSettings) else partial(engine.score, QUERY)
    finally:
        await engine.close()


class ScriptedApi:
    """An API that gives its scripted answers, then right ones."""

    def __init__(self, *script: Response, dialect: Dialect = OPENAI) -> None:
        self.dialect = dialect
        self.script = deque(script)
        self.asked: list[tuple[httpx.Headers, Any]] = []
        self.held = ""  # a text that gets no answer meanwhile
        self.at_once = self.most_at_once = 0

    @property
    def texts(self) -> list[list[str]]:
        """The texts of each request."""
        return [body[self.dialect.texts] for _, body in self.asked]

    async def answer(self, request: Request) -> Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            body = await request.json()
            self.asked.append((httpx.Headers(request.headers.raw), body))
            await asyncio.sleep(0.02)
            while self.held in body[self.dialect.texts]:  # noqa: ASYNC110  # another thread sets it
                await asyncio.sleep(0.01)
            return self.script.popleft() if self.script else self.dialect.right(len(body[self.dialect.texts]))
        finally:
            self.at_once -= 1

    @contextmanager
    def served(self) -> Iterator[str]:
        app: Any = Starlette(routes=[Route(self.dialect.route, self.answer, methods=["POST"])])
        with served(app) as url:
            try:
                yield url
            finally:
                self.held = ""

    @asynccontextmanager
    async def asked_by(self, **settings: Any) -> AsyncIterator[Ask]:
        """Our client of this API."""
        with self.served() as url:
            async with asking(self.dialect.hosted(url, **settings)) as ask:
                yield ask


def refusal(status: int, said: str = "no", **headers: str) -> Response:
    return JSONResponse(
        {"error": {"message": said}}, status, {name.replace("_", "-"): one for name, one in headers.items()}
    )
