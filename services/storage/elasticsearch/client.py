"""Opens the clients of Elasticsearch, without retries, and bounds each call by the request's deadline."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

import aiohttp
from elastic_transport import AiohttpHttpNode, ApiResponseMeta, ConnectionError, HttpHeaders, NodeConfig, TlsError
from elastic_transport.client_utils import DEFAULT
from elasticsearch import ApiError, AsyncElasticsearch
from elasticsearch.exceptions import HTTP_EXCEPTIONS
from elasticsearch.serializer import JsonSerializer
from pydantic_core import from_json, to_json

from services.chassis.calls.sockets import SocketTransport
from services.chassis.calls.transport import Incoming, NotTrusted, Outgoing
from services.chassis.calls.transport import TransportError as CallFailed
from services.chassis.deadlines import MOST_MS, current_deadline
from services.chassis.errors import DeadlineExceeded
from services.chassis.requests.telemetry import request_id
from services.chassis.settings.trust import context_for
from services.storage.elasticsearch.settings import ElasticsearchSettings

JSON = "application/json"
_quoted = lru_cache(maxsize=1_000)(partial(quote, safe="@"))


class ExactJsonSerializer(JsonSerializer):
    """Reads an answer of 100 hits in a third of the time of the standard library, whole numbers of any size exactly.

    orjson reads a whole number beyond 64 bits as a float, which changes a document's metadata and content hash.
    """

    def json_loads(self, data: bytes) -> Any:
        """Returns the value of the text. Raises ValueError for text that is not JSON."""
        return from_json(data)


class DirectNode(AiohttpHttpNode):
    """Follows no redirect: aiohttp would send queries and documents on to any host that an answer names.

    Owns further connections, for searches.
    """

    def __init__(self, config: NodeConfig) -> None:
        super().__init__(config)
        address = urlsplit(self.base_url).hostname or ""
        self._calls = SocketTransport(address, most=config.connections_per_node, context=config.ssl_context)

    async def post(self, target: str, body: bytes, headers: Mapping[str, str]) -> Incoming:
        """Sends JSON and returns the answer, whatever its status. Raises the errors of any call of the client."""
        try:
            return await self._calls.send(Outgoing("POST", self.base_url + target, headers, body, MOST_MS / 1000))
        except NotTrusted as error:
            raise TlsError(str(error)) from error
        except CallFailed as error:
            raise ConnectionError(str(error)) from error

    async def close(self) -> None:  # type: ignore[override]  # as in the library
        """Closes the connections."""
        await self._calls.aclose()
        await super().close()

    def _create_aiohttp_session(self) -> None:
        super()._create_aiohttp_session()
        assert self.session is not None
        self.session = DirectSession(self.session)  # type: ignore[assignment]  # of it, a node uses these two


class DirectSession:
    """The two methods of a session that a node uses."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    def request(self, method: str, url: str, **more: Any) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Sends a request. An answer that redirects is its answer."""
        return self._session.request(method, url, allow_redirects=False, **more)

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()


@dataclass(frozen=True, slots=True)
class ElasticsearchClients:
    """Two clients over one pool of connections: each sends its own key. They are the same where there is one key."""

    reading: AsyncElasticsearch
    writing: AsyncElasticsearch
    # False: the settings have a search key alone.
    may_write: bool = True
    # Whether a write to a live generation is acknowledged when searches see it.
    refresh_live: bool = True

    @classmethod
    def connect(cls, settings: ElasticsearchSettings, connections: int) -> Self:
        """Opens the clients of the settings. Raises as `open_client` does."""
        key, search_key = (
            None if one is None else one.get_secret_value()
            for one in (settings.elasticsearch_api_key, settings.elasticsearch_search_api_key)
        )
        client = open_client(settings.elasticsearch_url, key, settings.elasticsearch_ca_file, connections)
        return cls(
            client if search_key is None else client.options(api_key=search_key),
            client,
            may_write=key is not None or search_key is None,
            refresh_live=settings.elasticsearch_refresh == "write",
        )

    async def close(self) -> None:
        """Closes the connections of both."""
        await self.writing.close()


def open_client(url: str, api_key: str | None, ca_file: Path | None, connections: int) -> AsyncElasticsearch:
    """Opens a client that connects on its first call. Raises ConfigurationError naming a file without an authority."""
    # The client's own context would trust the system's authorities beside that file, and any host behind an address.
    context = context_for(url.lower(), ca_file, "ELASTICSEARCH_CA_FILE")
    return AsyncElasticsearch(
        url,
        node_class=DirectNode,
        api_key=api_key,
        ssl_context=context if urlsplit(url).scheme == "https" else DEFAULT,
        connections_per_node=connections,
        # Every call is bounded by its request's deadline.
        request_timeout=MOST_MS / 1000,
        serializers={ExactJsonSerializer.mimetype: ExactJsonSerializer()},
        # The default is three immediate retries on 429, 502, 503 and 504, which multiplies the load under overload.
        max_retries=0,
        retry_on_timeout=False,
    )


async def search_index(
    client: AsyncElasticsearch, index: str, body: Mapping[str, object], params: Mapping[str, str]
) -> bytes:
    """Sends a search and returns the JSON of its answer, bounded by the request's deadline, with its id for
    Elasticsearch's logs.

    As `within_deadline(client).search(...)`, at a third of the time on our side: copies of the client and of its
    headers and the checks of its arguments took longer than the rest. Raises the client's errors.
    """
    node = client.transport.node_pool.get()
    assert isinstance(node, DirectNode)
    query = "&".join(f"{name}={value}" for name, value in params.items())  # all ours, and safe in a URL
    headers = {**client._headers, "accept": JSON, "content-type": JSON, "x-opaque-id": request_id()}
    try:
        async with asyncio.timeout(_remaining_s()):
            answer = await node.post(f"/{_quoted(index)}/_search?{query}", to_json(body), headers)
    except TimeoutError as error:
        raise DeadlineExceeded("Elasticsearch did not answer in time; send a larger X-Deadline-Ms.") from error
    if 200 <= answer.status < 300:
        return answer.content
    try:
        found = from_json(answer.content)
        kind = found["error"]["type"]
    except (ValueError, KeyError, TypeError):  # a proxy's
        found = kind = answer.content.decode(errors="replace")
    meta = ApiResponseMeta(answer.status, "1.1", HttpHeaders(), 0.0, node.config)
    raise HTTP_EXCEPTIONS.get(answer.status, ApiError)(kind, meta, found)


def within_deadline(client: AsyncElasticsearch) -> AsyncElasticsearch:
    """Returns the client for one call: bounded by the request's deadline, with its id for Elasticsearch's logs."""
    return client.options(request_timeout=_remaining_s(), opaque_id=request_id())


def _remaining_s() -> float:
    remaining_s = current_deadline().remaining_s
    if not remaining_s:  # aiohttp takes 0 as no timeout
        raise DeadlineExceeded("The deadline has passed; send a larger X-Deadline-Ms.")
    return remaining_s
