"""Calls the gateway by the client package, with a deadline on every call; answers are models of the contracts."""

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlencode

import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import ValidationError

from evaluator.client.cached_results import CACHED_HEADER, CachedResults, read_cached_results
from evaluator.client.gateway_access import GatewayAccess, read_access
from evaluator.errors import EvaluationError
from evaluator.progress import say
from retrieval_client import AsyncClient, RetrievalError
from retrieval_client.exchange import UNFINISHED, Request, Steps, attempt, parsed, refusal, respond
from services.chassis.settings.trust import certificate_fault
from services.contracts.base import Wire
from services.contracts.collections import CollectionList, CollectionView
from services.contracts.documents import DocumentsAnswer, DocumentsPage, IdsRequest
from services.contracts.health import Health
from services.contracts.pipelines import Pipeline, PipelineList, PipelineView
from services.contracts.query import SearchAnswer, SearchRequest

QUERY_DEADLINE_MS = 60_000  # long enough that nothing degrades while quality is measured
LOAD_DEADLINE_MS = 120_000  # the most that the wire allows
PROBE_DEADLINE_MS = 5_000

Answer = TypeVar("Answer", bound=Wire)
T = TypeVar("T")


class GatewayError(EvaluationError):
    """A call without a usable answer.

    `kind`: timeout, unreachable, untrusted (its certificate), bad_answer, or the problem's own (`unavailable`,
    `not-found`, `http_502`, …).
    `status` is 0 when there was no HTTP answer.
    """

    def __init__(self, kind: str, detail: str, *, status: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(detail)
        self.kind = kind
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer, the milliseconds from sending the request to the last byte read, and what backends had cached."""

    answer: SearchAnswer
    latency_ms: float
    cached: CachedResults


class GatewayClient:
    """Calls one gateway. Retries nothing, but for `loader`: that loads and publishes, within `loading_errors`."""

    def __init__(self, url: str, loader: AsyncClient) -> None:
        self.url = url
        self.loader = loader

    async def health(self) -> Health:
        """Returns the gateway's readiness, also when it is not ready."""
        return await self._sent(_health(Request("GET", "/readyz", None, PROBE_DEADLINE_MS / 1000)))

    async def collections(self) -> CollectionList:
        """Returns all collections, and the names of the backends that can store one."""
        return await self._call(CollectionList, "GET", "/v1/collections", QUERY_DEADLINE_MS)

    async def collection(self, collection: str) -> CollectionView:
        """Returns counts, stamps and state per service."""
        return await self._call(CollectionView, "GET", f"/v1/collections/{collection}", QUERY_DEADLINE_MS)

    async def remove(self, collection: str) -> None:
        """Removes every generation of a collection."""
        request = Request("DELETE", f"/v1/collections/{collection}", None, LOAD_DEADLINE_MS / 1000)
        await self._sent(respond(request), scope="index")

    async def documents(self, collection: str, ids: Sequence[str]) -> DocumentsAnswer:
        """Returns documents of the live generation by id, from the document store."""
        body = IdsRequest(ids=tuple(ids)).model_dump_json().encode()
        path = f"/v1/collections/{collection}/documents/get"
        return await self._call(DocumentsAnswer, "POST", path, QUERY_DEADLINE_MS, body)

    async def document_page(
        self, collection: str, after: str | None, most: int, *, vectors: bool = False
    ) -> DocumentsPage:
        """Returns a page of the documents of the live generation: those after the `following` of the page before."""
        query = urlencode({"most": most, "vectors": vectors} | ({} if after is None else {"after": after}))
        path = f"/v1/collections/{collection}/documents?{query}"
        return await self._call(DocumentsPage, "GET", path, QUERY_DEADLINE_MS)

    async def pipeline(self, name: str) -> PipelineView:
        """Returns a pipeline that the gateway serves by name."""
        return await self._call(PipelineView, "GET", f"/v1/pipelines/{name}", QUERY_DEADLINE_MS)

    async def pipelines(self) -> tuple[Pipeline, ...]:
        """Returns the pipelines that the gateway serves by name."""
        served = await self._call(PipelineList, "GET", "/v1/pipelines", PROBE_DEADLINE_MS)
        return tuple(view.pipeline for view in served.pipelines)

    async def search(
        self, collection: str, request: SearchRequest, deadline_ms: int = QUERY_DEADLINE_MS, *, caches: bool = False
    ) -> TimedAnswer:
        """Sends one query. The time covers network and gateway, not encoding the request or parsing the answer.

        Without `caches` it asks for no-store: a cached answer would be timed instead of the search.
        """
        body = request.model_dump_json(exclude_unset=True).encode()
        path = f"/v1/collections/{collection}/search"
        sent = Request("POST", path, body, deadline_ms / 1000, no_store=not caches)
        return await self._sent(_timed_search(sent))

    async def _call(
        self, model: type[Answer], method: str, path: str, deadline_ms: int, body: bytes | None = None
    ) -> Answer:
        return await self._sent(attempt(model.from_answer, Request(method, path, body, deadline_ms / 1000)))

    async def _sent(self, steps: Steps[T], scope: str = "search") -> T:
        """Raises the errors of a call as GatewayError. `scope`: what its key has to allow."""
        try:
            return await self.loader.run(steps)
        except RetrievalError as error:
            raise _gateway_error(error, scope) from error


def _health(request: Request) -> Steps[Health]:
    response = yield from respond(request, accepted=(503,))
    if response.status_code == 503:
        with suppress(ValidationError):  # from a proxy without its gateway
            return Health.from_answer(response.content)
        raise refusal(503, response.content, "", str(response.url))
    return parsed(Health.from_answer, response.content, str(response.url))


def _timed_search(request: Request) -> Steps[TimedAnswer]:
    started = time.perf_counter()
    response = yield from respond(request)
    latency_ms = (time.perf_counter() - started) * 1000
    answer = parsed(SearchAnswer.from_answer, response.content, str(response.url))
    return TimedAnswer(answer, latency_ms, read_cached_results(response.headers.get(CACHED_HEADER, "")))


@asynccontextmanager
async def connected(
    url: str, transport: httpx.AsyncBaseTransport | None = None, access: GatewayAccess | None = None
) -> AsyncIterator[GatewayClient]:
    """Yields a client for the gateway at `url`, over `transport` if given (tests: the app in this process).

    `access`: the key and the authority; None: those of the environment. Raises EvaluationError before anything is sent
    where a key would travel unencrypted.
    """
    access = access or read_access()
    access.expect_safe(url)
    loader = AsyncClient(
        url,
        key=None if access.key is None else access.key.get_secret_value(),
        deadline_ms=LOAD_DEADLINE_MS,
        trust_plain=True,  # `expect_safe` has checked where the key travels
        repeating=lambda error, pause_s: say(f"{_gateway_error(error, 'index')} - next attempt in {pause_s:.1f} s"),
        transport=transport or AiohttpTransport(verify=access.context(url)),
    )
    async with loader:
        yield GatewayClient(url.rstrip("/"), loader)


@contextmanager
def loading_errors(command: str, scope: str = "index") -> Iterator[None]:
    """Raises the errors of a `loader` as EvaluationError, most as GatewayError; `command`: to run again.

    `scope`: what its key has to allow.
    """
    try:
        yield
    except RetrievalError as error:
        failure = _gateway_error(error, scope)
        if error.status in UNFINISHED and failure.kind != "untrusted":
            raise EvaluationError(f"given up: {failure} (run {command} again to go on)") from error
        raise failure from error


def search_answer(status: int, content: bytes, retry_after: str = "") -> SearchAnswer:
    """Parses the response to a search. Raises GatewayError for every other than an answer."""
    try:
        if status != 200:
            raise refusal(status, content, retry_after, "the gateway's address")
        return parsed(SearchAnswer.from_answer, content, "the gateway")
    except RetrievalError as error:
        raise _gateway_error(error, "search") from error


def _gateway_error(error: RetrievalError, scope: str) -> GatewayError:
    """`scope`: what the key of the request has to allow."""
    if isinstance(error.__cause__, httpx.TransportError) and error.kind != "timeout":
        return _unreachable(error.__cause__)
    detail = f"HTTP {error.status}: {error}" if error.request_id else str(error)
    # Records and reports have these two kinds with an underscore.
    kind = error.kind.replace("http-", "http_").replace("bad-answer", "bad_answer")
    if error.status == 403:
        detail = f"the gateway forbids this to the key that was sent ({detail})"
    if error.status == 401:
        detail = f"the gateway refuses the key: set GATEWAY_API_KEY to one with scope {scope} ({detail})"
    if error.status == 504:
        kind = "timeout"
    return GatewayError(kind, detail, status=error.status, retry_after_s=error.retry_after_s)


def _unreachable(error: httpx.TransportError) -> GatewayError:
    call = f"{error.request.method} {error.request.url}"
    if (fault := certificate_fault(error)) is not None:
        return GatewayError("untrusted", f"{call}: {untrusted(fault)}")
    # The aiohttp transport reports a lost connection as a connect timeout: no time limit of ours has passed.
    detail = f"{call}: {str(error) or type(error).__name__}; is the gateway up (`make up` starts one)?"
    if error.request.url.scheme == "http":
        detail += " One that speaks TLS needs https:// in its URL."
    return GatewayError("unreachable", detail)


def untrusted(fault: str) -> str:
    """Returns what to do about a certificate that was refused."""
    return (
        f"the gateway's certificate is refused ({fault}): STACK_CA_FILE has to name the authority that issued it, and "
        "the URL a host that it is for"
    )
