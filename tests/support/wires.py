"""Puts transports of httpx in place of sockets: whole services in this process (ASGI), or faults at the wire."""

from collections.abc import Sequence

import httpx

from services.chassis.calls.transport import (
    READ_HEADERS,
    AnswerBroken,
    ConnectionLost,
    ConnectTimedOut,
    Incoming,
    NotConnected,
    Outgoing,
    Transport,
)


class HttpxWire:
    """Implements the gateway's Transport over a transport of httpx."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def send(self, request: Outgoing) -> Incoming:
        """Sends a request. Faults of httpx become those of the port; others pass, as from a defect."""
        sent = httpx.Request(request.method, request.url, headers=request.headers, content=request.content)
        try:
            response = await self._inner.handle_async_request(sent)
            await response.aread()
            await response.aclose()
        except httpx.ConnectError as error:
            raise NotConnected(str(error)) from error
        except httpx.ConnectTimeout as error:
            raise ConnectTimedOut(str(error)) from error
        except (httpx.ReadError, httpx.ProtocolError) as error:
            raise AnswerBroken(str(error)) from error
        except httpx.TransportError as error:
            raise ConnectionLost(str(error)) from error
        headers = {name: value for name in READ_HEADERS if (value := response.headers.get(name)) is not None}
        return Incoming(response.status_code, response.content, headers, lambda: None)

    async def aclose(self) -> None:
        """Closes the transport."""
        await self._inner.aclose()


class FixedEndpoints:
    """Uses given transports in place of addresses, each as a replica."""

    def __init__(self, *transports: httpx.AsyncBaseTransport | Transport) -> None:
        self._transports: dict[str, Transport] = {
            f"transport-{number}": HttpxWire(one) if isinstance(one, httpx.AsyncBaseTransport) else one
            for number, one in enumerate(transports)
        }

    async def addresses(self) -> Sequence[str]:
        """Returns one address for each transport."""
        return tuple(self._transports)

    def transport(self, address: str) -> Transport:
        """Returns the transport of an address."""
        return self._transports[address]
