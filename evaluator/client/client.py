"""Calls the gateway over HTTP, with a deadline on every call; the client package loads collections for it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn, TypeVar
from urllib.parse import urlencode

import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import ValidationError

from evaluator.client.cached_results import CACHED_HEADER, CachedResults, read_cached_results
from evaluator.client.gateway_access import GatewayAccess, read_access
from evaluator.errors import EvaluationError
from evaluator.progress import say
from retrieval_client import AsyncClient, RetrievalError
from retrieval_client.exchange import UNFINISHED
from services.chassis.settings.trust import certificate_fault
from services.contracts.base import Wire
from services.contracts.collections import CollectionList, CollectionView
from services.contracts.documents import DocumentsAnswer, DocumentsPage, IdsRequest
from services.contracts.health import Health
from services.contracts.pipelines import PipelineList, PipelineView
from services.contracts.problem import Problem
from services.contracts.query import SearchAnswer, SearchRequest

QUERY_DEADLINE_MS = 60_000  # long enough that nothing degrades while quality is measured
LOAD_DEADLINE_MS = 120_000  # the most that the wire allows
PROBE_DEADLINE_MS = 5_000
# Time for the answer to travel after the gateway's deadline; a later answer is a timeout.
GRACE_S = 5.0
CONNECT_S = 5.0

Answer = TypeVar("Answer", bound=Wire)


class GatewayError(EvaluationError):
    """A call without a usable answer.

    `kind`: timeout, unreachable, untrusted (its certificate), bad_answer, or the problem's own (`unavailable`,
    `not-found`, `http_502`, …).
    `status` is 0 when there was no HTTP answer.
    """

    def __init__(self, kind: str, detail: str, *, status: int = 0, retry_after_s: float | None = None) -> None:
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

    def __init__(self, url: str, http: httpx.AsyncClient, loader: AsyncClient) -> None:
        self.url = url
        self._http = http
        self.loader = loader

    async def health(self) -> Health:
        """Returns the gateway's readiness, also when it is not ready."""
        response = await self._send("GET", "/readyz", PROBE_DEADLINE_MS)
        if response.status_code == 503:
            with suppress(ValidationError):  # from a proxy without its gateway
                return Health.from_answer(response.content)
        return _parse(Health, response.content) if response.status_code == 200 else _raise_problem(response)

    async def collections(self) -> CollectionList:
        """Returns all collections, and the names of the backends that can store one."""
        return await self._call(CollectionList, "GET", "/v1/collections", QUERY_DEADLINE_MS)

    async def collection(self, collection: str) -> CollectionView:
        """Returns counts, stamps and state per service."""
        return await self._call(CollectionView, "GET", f"/v1/collections/{collection}", QUERY_DEADLINE_MS)

    async def remove(self, collection: str) -> None:
        """Removes every generation of a collection."""
        await self._answered("DELETE", f"/v1/collections/{collection}", LOAD_DEADLINE_MS)

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

    async def pipelines(self) -> tuple[str, ...]:
        """Returns the names of the pipelines that the gateway serves."""
        served = await self._call(PipelineList, "GET", "/v1/pipelines", PROBE_DEADLINE_MS)
        return tuple(view.name for view in served.pipelines)

    async def search(
        self, collection: str, request: SearchRequest, deadline_ms: int = QUERY_DEADLINE_MS, *, caches: bool = False
    ) -> TimedAnswer:
        """Sends one query. The time covers network and gateway, not encoding the request or parsing the answer.

        Without `caches` it asks for no-store: a cached answer would be timed instead of the search.
        """
        body = request.model_dump_json(exclude_unset=True).encode()
        started = time.perf_counter()
        path = f"/v1/collections/{collection}/search"
        response = await self._send("POST", path, deadline_ms, body, caches=caches)
        latency_ms = (time.perf_counter() - started) * 1000
        answer = search_answer(response.status_code, response.content, response.headers.get("retry-after", ""))
        cached = read_cached_results(response.headers.get(CACHED_HEADER, ""))
        return TimedAnswer(answer, latency_ms, cached)

    async def _call(
        self, model: type[Answer], method: str, path: str, deadline_ms: int, body: bytes | None = None
    ) -> Answer:
        return _parse(model, (await self._answered(method, path, deadline_ms, body)).content)

    async def _answered(self, method: str, path: str, deadline_ms: int, body: bytes | None = None) -> httpx.Response:
        response = await self._send(method, path, deadline_ms, body)
        return response if response.is_success else _raise_problem(response)

    async def _send(
        self, method: str, path: str, deadline_ms: int, body: bytes | None = None, *, caches: bool = False
    ) -> httpx.Response:
        headers = {"x-deadline-ms": str(deadline_ms)}
        if not caches:
            headers["cache-control"] = "no-store"
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            async with asyncio.timeout(deadline_ms / 1000 + GRACE_S):
                return await self._http.request(method, path, content=body, headers=headers)
        except (TimeoutError, httpx.ReadTimeout) as error:
            raise GatewayError("timeout", f"{method} {self.url}{path}: no answer in {deadline_ms} ms") from error
        except httpx.TransportError as error:
            raise _unreachable(error, f"{method} {self.url}{path}") from error


@asynccontextmanager
async def connected(
    url: str, transport: httpx.AsyncBaseTransport | None = None, access: GatewayAccess | None = None
) -> AsyncIterator[GatewayClient]:
    """Yields a client for the gateway at `url`, over `transport` if given (tests: the app in this process).

    `access`: the key and the authority; None: those of the environment. Raises EvaluationError before anything is sent
    where a key would travel unencrypted.
    """
    access = access or read_access()
    headers = access.headers(url)
    transport = transport or AiohttpTransport(verify=access.context(url))
    loader = AsyncClient(  # `headers` has checked where the key travels; the other client closes the transport
        url,
        key=None if access.key is None else access.key.get_secret_value(),
        deadline_ms=LOAD_DEADLINE_MS,
        trust_plain=True,
        repeating=lambda error, pause_s: say(f"{_gateway_error(error)} - next attempt in {pause_s:.1f} s"),
        transport=transport,
    )
    timeout = httpx.Timeout(LOAD_DEADLINE_MS / 1000 + GRACE_S, connect=CONNECT_S)
    async with httpx.AsyncClient(base_url=url, headers=headers, transport=transport, timeout=timeout) as http:
        yield GatewayClient(url.rstrip("/"), http, loader)


@contextmanager
def loading_errors(command: str) -> Iterator[None]:
    """Raises the errors of a `loader` as EvaluationError, most as GatewayError; `command`: to run again."""
    try:
        yield
    except RetrievalError as error:
        told = _gateway_error(error)
        if error.status in UNFINISHED and told.kind != "untrusted":
            raise EvaluationError(f"given up: {told} (run {command} again to go on)") from error
        raise told from error


def _gateway_error(error: RetrievalError) -> GatewayError:
    if isinstance(error.__cause__, httpx.TransportError) and error.kind != "timeout":
        return _unreachable(error.__cause__, f"{error.__cause__.request.method} {error.__cause__.request.url}")
    told = f"HTTP {error.status}: {error}" if error.request_id else str(error)
    return _refused(error.status, error.kind, told, "index", error.retry_after_s)


def _unreachable(error: httpx.TransportError, call: str) -> GatewayError:
    if (fault := certificate_fault(error)) is not None:
        return GatewayError("untrusted", f"{call}: {untrusted(fault)}")
    # The aiohttp transport reports a lost connection as a connect timeout: no time limit of ours has passed.
    detail = f"{call}: {str(error) or type(error).__name__}; is the gateway up (`make up` starts one)?"
    if error.request.url.scheme == "http":
        detail += " One that speaks TLS needs https:// in its URL."
    return GatewayError("unreachable", detail)


def search_answer(status: int, content: bytes, retry_after: str = "") -> SearchAnswer:
    """Parses the response to a search. Raises GatewayError for every other than an answer."""
    if status != 200:
        raise _problem(status, content, retry_after, "search")
    return _parse(SearchAnswer, content)


def _parse(model: type[Answer], content: bytes) -> Answer:
    try:
        return model.from_answer(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise GatewayError(
            "bad_answer", f"the gateway's answer is no {model.__name__}: {where}: {first['msg']}"
        ) from error


def _raise_problem(response: httpx.Response) -> NoReturn:
    request = response.request
    reads = request.method == "GET" or request.url.path.endswith("/documents/get")
    scope = "search" if reads else "index"
    raise _problem(response.status_code, response.content, response.headers.get("retry-after", ""), scope)


def untrusted(fault: str) -> str:
    """Returns what to do about a certificate that was refused."""
    return (
        f"the gateway's certificate is refused ({fault}): STACK_CA_FILE has to name the authority that issued it, and "
        "the URL a host that it is for"
    )


def _problem(status: int, content: bytes, retry_after: str, scope: str) -> GatewayError:
    """`scope`: what the key of the request has to allow."""
    try:
        problem = Problem.from_answer(content)
    except ValidationError:
        kind, detail = f"http_{status}", f"HTTP {status} without a problem's details"
    else:
        kind, detail = problem.type.removeprefix("urn:problem:"), f"HTTP {problem.status}: {problem.detail}"
    return _refused(status, kind, detail, scope, float(retry_after) if retry_after.isdigit() else None)


def _refused(status: int, kind: str, detail: str, scope: str, retry_after_s: float | None) -> GatewayError:
    if status == 403:
        detail = f"the gateway forbids this to the key that was sent ({detail})"
    if status == 401:
        detail = f"the gateway refuses the key: set GATEWAY_API_KEY to one with scope {scope} ({detail})"
    if status == 504:
        kind = "timeout"
    return GatewayError(kind, detail, status=status, retry_after_s=retry_after_s)
