"""Owns the connection to a Qdrant server: its clients, its version, a deadline around every call, and its errors.

Maps errors of the client to ours, most specific first; the original error stays as the cause. Knows no collections.
"""

import asyncio
import importlib.metadata
import logging
import math
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from services.chassis import errors
from services.chassis.deadlines import MOST_MS, current_deadline
from services.chassis.settings.trust import certificate_fault, context_for
from services.contracts.health import Check

_READING_KEY_REFUSED = (
    "Qdrant refuses the key to read with; set QDRANT_SEARCH_API_KEY to one that may read, or QDRANT_API_KEY where that "
    "is not set."
)
_WRITING_KEY_REFUSED = "Qdrant refuses the key to write with; set QDRANT_API_KEY to one that may read and write."


@contextmanager
def qdrant_errors(generation: str, *, writes: bool = False) -> Iterator[None]:
    """Raises a ProblemError for every error of the client; `generation` is the collection's name without a prefix.

    `writes`: the call was sent with the key that writes, which a refusal then names.
    """
    try:
        yield
    except ResourceExhaustedResponse as error:
        raise errors.Overloaded(f"Qdrant refuses more requests: {error}", retry_after_s=error.retry_after_s) from error
    except UnexpectedResponse as error:
        raise _of_status(error, generation, writes) from error
    except ResponseHandlingException as error:
        raise _of_source(error.source) from error
    except (ApiException, QdrantException) as error:
        raise errors.UpstreamFailed(f"Qdrant failed: {_line(error)}") from error
    except ValueError as error:
        # The in-process engine raises ValueError for everything; only the message names the cause.
        if str(error).startswith("Collection ") and str(error).endswith(" not found"):
            raise unknown(generation) from error
        raise errors.UpstreamFailed(f"Qdrant's answer could not be used: {_line(error)}") from error
    except (AssertionError, TypeError, RuntimeError) as error:
        # The client asserts that an answer has a result, and raises RuntimeError once it is closed.
        raise errors.UpstreamFailed(f"Qdrant's answer could not be used: {_line(error)}") from error


def unknown(generation: str) -> errors.UnknownCollection:
    """Returns the error for a collection that does not exist."""
    return errors.UnknownCollection(f"There is no collection {generation} here; begin it first.")


def _of_status(error: UnexpectedResponse, generation: str, writes: bool) -> errors.ProblemError:
    match error.status_code:
        case 404:
            return unknown(generation)
        case 401 | 403:
            return errors.UpstreamFailed(_WRITING_KEY_REFUSED if writes else _READING_KEY_REFUSED)
        case 409:
            return errors.Conflict(f"Qdrant has {generation} already.")
        case 408 | 504:
            return errors.DeadlineExceeded("Qdrant did not answer in time; send a larger X-Deadline-Ms.")
        case 429:
            return errors.Overloaded("Qdrant refuses more requests; try again after the seconds in Retry-After.")
        case 502 | 503:
            return errors.Unavailable(f"Qdrant is not available now (HTTP {error.status_code}); try again.")
        case status:
            return errors.UpstreamFailed(f"Qdrant answered with HTTP {status}: {_line(error)}")


def _of_source(source: Exception) -> errors.ProblemError:
    match source:
        case httpx.ReadTimeout() | httpx.WriteTimeout() | httpx.PoolTimeout():
            return errors.DeadlineExceeded("Qdrant did not answer in time; send a larger X-Deadline-Ms.")
        case httpx.TransportError() | OSError():
            # The client's own message has the server's address, and anybody reads /readyz.
            reason = certificate_fault(source) or type(source.__cause__ or source).__name__
            return errors.Unavailable(
                f"Qdrant cannot be reached ({reason}). Is it running at QDRANT_URL, and is its certificate signed by "
                "the authority in QDRANT_CA_FILE?"
            )
        case _:
            return errors.UpstreamFailed(f"Qdrant's answer could not be read: {_line(source)}")


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


logger = logging.getLogger(__name__)

READY_SECONDS = 2.0
SUPPORTED = "1.20 and newer are supported"
_OLDEST = (1, 20)  # the first with TurboQuant of 8 bits per component


@dataclass(frozen=True, slots=True)
class QdrantServer:
    """Address and credentials of a server. Without `search_api_key`, `api_key` reads too."""

    url: str
    api_key: SecretStr | None = None
    search_api_key: SecretStr | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class QdrantClients:
    """Two clients of one server, each with its own key and connections; the same one where there is one key."""

    reading: AsyncQdrantClient
    writing: AsyncQdrantClient

    @classmethod
    def of(cls, server: QdrantServer) -> Self:
        """Creates the clients without connecting; call inside a running event loop."""
        writing = _client_of(server, server.api_key)
        return cls(writing if server.search_api_key is None else _client_of(server, server.search_api_key), writing)

    async def close(self) -> None:
        """Closes the connections of both."""
        await self.writing.close()
        if self.reading is not self.writing:
            await self.reading.close()


def _client_of(server: QdrantServer, key: SecretStr | None) -> AsyncQdrantClient:
    context = context_for(server.url, server.ca_file, "QDRANT_CA_FILE")
    # The server closes connections that were idle for 5 s; a request on one that it just closed fails.
    limits = httpx.Limits(max_connections=64, keepalive_expiry=3.0)
    return AsyncQdrantClient(
        url=server.url,
        api_key=key.get_secret_value() if key else None,
        # The client's own timeouts are whole seconds and only a second bound: `within` enforces the deadline.
        timeout=MOST_MS // 1000,
        check_compatibility=False,  # would use a second client in a thread; ready() checks the version
        transport=AiohttpTransport(verify=context, limits=limits),
        trust_env=False,  # a proxy from the environment would replace this transport by httpx' own
    )


class QdrantConnection:
    """Owns the clients, and knows which version of their server answered last."""

    def __init__(self, clients: QdrantClients) -> None:
        self.clients = clients
        self._answered: str | None = None

    @property
    def engine(self) -> str:
        """The versions of the server that answered last, and of the client."""
        client = importlib.metadata.version("qdrant-client")
        return f"qdrant {self._answered} (client {client})" if self._answered else f"qdrant (client {client})"

    async def ready(self) -> Check:
        """Returns whether the server answers with a supported version; never raises."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self.expect_supported()
        except TimeoutError:
            return Check(name="store", ok=False, detail=f"Qdrant did not answer within {READY_SECONDS:g} s.")
        except errors.ProblemError as error:
            return Check(name="store", ok=False, detail=error.detail)
        return Check(name="store", ok=True, detail=f"qdrant {self._answered}; {SUPPORTED}")

    async def expect_supported(self) -> None:
        """Asks the server for its version. Raises UpstreamFailed if it gives none, or one that is too old."""
        with qdrant_errors("any"):
            text = (await self.clients.reading.info()).version
        if text != self._answered:
            logger.info("Qdrant %s answers; %s.", text, SUPPORTED)
            self._answered = text
        version = re.match(r"(\d+)\.(\d+)", text)
        if version is None:
            raise errors.UpstreamFailed(f"The server at QDRANT_URL gives no version of Qdrant ({text!r}); {SUPPORTED}.")
        if (int(version[1]), int(version[2])) < _OLDEST:
            raise errors.UpstreamFailed(f"Qdrant {text} at QDRANT_URL is too old: {SUPPORTED}, so update it.")

    @asynccontextmanager
    async def within(self, generation: str, *, writes: bool = False) -> AsyncIterator[int]:
        """Enforces the request's deadline, and maps errors of the client to ours. `writes`: the writing client's.

        Yields the remaining time in whole seconds, rounded up, for the timeout that the server itself enforces.
        """
        remaining = current_deadline().remaining_s
        try:
            async with asyncio.timeout(remaining):
                with qdrant_errors(generation, writes=writes):
                    yield max(1, math.ceil(remaining))
        except TimeoutError as error:
            raise errors.DeadlineExceeded("Qdrant did not answer within X-Deadline-Ms; send a larger one.") from error

    async def close(self) -> None:
        """Closes the connections."""
        await self.clients.close()
