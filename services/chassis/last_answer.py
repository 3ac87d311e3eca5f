"""Ends a connection after an answer that was begun while the caller may still send. http_protocol.py decides when."""

import asyncio
from collections.abc import Callable
from weakref import WeakMethod


class LastAnswer:
    """The transport of the last request that a connection answers: closing it takes leave."""

    def __init__(self, take_leave: Callable[[], None], transport: asyncio.Transport) -> None:
        # The protocol knows its requests: a circle would keep them until a full garbage collection.
        self._take_leave = WeakMethod(take_leave)
        self._transport = transport

    def write(self, data: bytes) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        take_leave = self._take_leave()
        if take_leave is not None:
            take_leave()
