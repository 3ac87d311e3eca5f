"""Calls an Elasticsearch over our own connections: no retries, no redirects, within the request's deadline."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self, TypeVar
from urllib.parse import urlsplit

from pydantic_core import to_json

from services.chassis.calls.sockets import SocketTransport
from services.chassis.calls.transport import ELASTIC_PRODUCT, Outgoing
from services.chassis.deadlines import MOST_MS, current_deadline
from services.chassis.errors import DeadlineExceeded, UpstreamFailed
from services.chassis.requests.telemetry import request_id
from services.chassis.settings.trust import context_for
from services.storage.elasticsearch.errors import RefusedByElasticsearch, cause_of, elasticsearch_errors
from services.storage.elasticsearch.settings import ElasticsearchSettings

Answer = TypeVar("Answer")
# Of version 8, which 9 answers too.
JSON, LINES = (f"application/vnd.elasticsearch+{kind}; compatible-with=8" for kind in ("json", "x-ndjson"))
NO_PARAMETERS: Mapping[str, str] = MappingProxyType({})


class ElasticsearchClient:
    """Sends requests with one key. `writes`: it is the key for writes, which a refusal then names."""

    def __init__(self, connections: SocketTransport, url: str, key: str | None, *, writes: bool) -> None:
        self._connections = connections
        self._url = url.rstrip("/")
        self._headers = {"accept": JSON} | ({} if key is None else {"authorization": f"ApiKey {key}"})
        self.writes = writes

    async def answer(
        self,
        parse: Callable[[bytes], Answer],
        method: str,
        path: str,
        body: object = None,
        params: Mapping[str, str] = NO_PARAMETERS,
        *,
        generation: str | None = None,
    ) -> Answer:
        """Returns what `parse` reads in the answer to `request`. Maps every error to a problem that says what to do."""
        with elasticsearch_errors(generation, writes=self.writes):
            return parse(await self.request(method, path, body, params))

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        params: Mapping[str, str] = NO_PARAMETERS,
        *,
        timeout_s: float | None = None,
    ) -> bytes:
        """Sends a value as JSON, or bytes as lines of JSON, and returns the JSON of the answer.

        Path and parameters are ours, and safe in a URL. Without `timeout_s` the request's deadline bounds the call.
        Raises RefusedByElasticsearch, DeadlineExceeded, TimeoutError, TransportError.
        """
        query = "&".join(f"{name}={value}" for name, value in params.items())
        headers = {**self._headers, "x-opaque-id": request_id()}  # for Elasticsearch's logs
        content = None if body is None else body if isinstance(body, bytes) else to_json(body)
        if content is not None:
            headers["content-type"] = LINES if content is body else JSON
        url = f"{self._url}{path}" + (f"?{query}" if query else "")
        async with asyncio.timeout(_remaining_s() if timeout_s is None else timeout_s):
            answer = await self._connections.send(Outgoing(method, url, headers, content, MOST_MS / 1000))
        if not 200 <= answer.status < 300:
            raise RefusedByElasticsearch(answer.status, cause_of(answer.content))
        if ELASTIC_PRODUCT not in answer.headers:
            raise UpstreamFailed("The server at ELASTICSEARCH_URL is not Elasticsearch.")
        return answer.content


@dataclass(frozen=True, slots=True)
class ElasticsearchClients:
    """Two clients over the same connections: each sends its own key."""

    connections: SocketTransport
    reading: ElasticsearchClient
    writing: ElasticsearchClient
    # False: the settings have a search key alone.
    may_write: bool = True
    # Whether a write to a live generation is acknowledged when searches see it.
    refresh_live: bool = True

    @classmethod
    def connect(cls, settings: ElasticsearchSettings, connections: int) -> Self:
        """Makes the clients of the settings, which connect on their first call.

        Raises ConfigurationError naming a file without an authority.
        """
        url, ca_file = settings.elasticsearch_url, settings.elasticsearch_ca_file
        key, search_key = (
            None if secret is None else secret.get_secret_value()
            for secret in (settings.elasticsearch_api_key, settings.elasticsearch_search_api_key)
        )
        context = context_for(url.lower(), ca_file, "ELASTICSEARCH_CA_FILE")
        opened = SocketTransport(urlsplit(url).hostname or "", most=connections, context=context)
        return cls(
            opened,
            ElasticsearchClient(opened, url, search_key or key, writes=False),
            ElasticsearchClient(opened, url, key, writes=True),
            may_write=key is not None or search_key is None,
            refresh_live=settings.elasticsearch_refresh == "write",
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self.connections.aclose()


def _remaining_s() -> float:
    remaining_s = current_deadline().remaining_s
    if not remaining_s:
        raise DeadlineExceeded("The deadline has passed; send a larger X-Deadline-Ms.")
    return remaining_s
