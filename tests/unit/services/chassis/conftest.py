"""The small app with keys: by a client without a network, and behind a real port."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from services.chassis.server.connections import ConnectionBounds
from tests.support.keyed_app import connected, keyed_settings, small_app
from tests.support.keys import Keys
from tests.support.served import bounded, port_of


@pytest.fixture
async def client(keys: Keys) -> AsyncIterator[httpx.AsyncClient]:
    async with connected(small_app(keyed_settings(keys))) as http:
        yield http


@pytest.fixture
def port(keys: Keys) -> Iterator[int]:
    with bounded(small_app(keyed_settings(keys)), ConnectionBounds()) as server:
        yield port_of(server)
