"""Sends requests on new connections: well-formed ones, and raw bytes of HTTP/1.1.

With tests/support/secured.py turned on, by TLS and with what opens the port.
"""

import asyncio
import re
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress

import httpx

from tests.support import secured

STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")


async def ask(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> httpx.Response:
    """Sends a request, `body` as JSON; returns its whole answer. Raises TransportError or TimeoutError without one."""
    client = httpx.AsyncClient(
        base_url=f"{'https' if secured.client_context(port) else 'http'}://127.0.0.1:{port}",
        headers={"content-type": "application/json", **secured.headers(port)},
        verify=secured.client_context(port) or False,
        trust_env=False,
        timeout=None,
    )
    async with asyncio.timeout(timeout_s), client:
        return await client.request(method, path, json=body, headers=headers)


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a port of this machine, by TLS where it is protected. Raises OSError."""
    return await asyncio.open_connection("127.0.0.1", port, limit=2**20, ssl=secured.client_context(port))


def half_close(writer: asyncio.StreamWriter) -> None:
    """Sends FIN after what was sent. TLS does not know it: then the socket is half-closed without a word of TLS."""
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.get_extra_info("socket").shutdown(socket.SHUT_WR)


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
