"""A client with answers of megabytes pauses after each while others search, and no other client does."""

from collections.abc import Awaitable, Callable

import httpx
import pytest

from gateway.search import long_answers
from gateway.search.long_answers import LONG, PAUSE_S_PER_CHARACTER, LongAnswers
from services.chassis.errors import Overloaded
from tests.support.backends import Stack, opened_stack

LONGEST = 16 * LONG
PAUSE_S = LONGEST * PAUSE_S_PER_CHARACTER


class Searches:
    """Counts the searches that have begun, and has a clock that stands still."""

    def __init__(self) -> None:
        self.begun = 0
        self.now = 100.0
        self.answers = LongAnswers(lambda: self.begun, lambda: self.now)

    async def read(self, client: str, length: int, *, others: int = 1, searches: bool = False) -> None:
        async with self.answers.reading(client, 0.0, searches=searches) as reading:
            self.begun += others + searches
            reading.length = length


async def test_a_long_answer_is_followed_by_a_pause_of_its_client_alone() -> None:
    searches = Searches()
    await searches.read("long", LONGEST)
    with pytest.raises(Overloaded) as refused:
        await searches.read("long", 1)
    assert (refused.value.retry_after_s, refused.value.pauses) == (1, True)
    await searches.read("other", 1)
    searches.now += 1.01 * PAUSE_S
    await searches.read("long", 1)
    await searches.read("long", 1)  # short ones are followed by none


async def test_long_answers_at_once_are_followed_by_the_pauses_of_all() -> None:
    searches = Searches()
    async with searches.answers.reading("long", 0.0) as first, searches.answers.reading("long", 0.0) as second:
        searches.begun += 1
        first.length = second.length = LONGEST
    searches.now += 1.99 * PAUSE_S
    with pytest.raises(Overloaded):
        await searches.read("long", 1)


async def test_after_a_pause_its_client_reads_for_one_answer_at_a_time() -> None:
    searches = Searches()
    await searches.read("long", LONGEST)
    searches.now += 1.01 * PAUSE_S
    async with searches.answers.reading("long", 0.0) as reading:
        with pytest.raises(Overloaded):
            await searches.read("long", 1)
        reading.length = 1
    await searches.read("long", 1)


@pytest.mark.parametrize("searches_itself", [True, False])
async def test_without_searches_of_others_there_is_no_pause(searches_itself: bool) -> None:
    searches = Searches()
    for _ in range(3):
        await searches.read("long", LONGEST, others=0, searches=searches_itself)


async def including(stack: Stack) -> int:
    return (await stack.search("plum", "bm25", include=["text"], top=1)).status_code


async def getting(stack: Stack) -> int:
    return (await stack.client.post("/v1/collections/demo/documents/get", json={"ids": ["plum"]})).status_code


async def getting_one(stack: Stack) -> int:
    return (await stack.client.get("/v1/collections/demo/documents/plum")).status_code


class SearchedMeanwhile(httpx.AsyncBaseTransport):
    """Searches, as somebody else does, before a request of others goes on."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.inner = stack.wires["lexical"]._inner
        self.searching = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not self.searching:
            self.searching = True
            assert (await self.stack.search("plum", "bm25")).status_code == 200
            self.searching = False
        return await self.inner.handle_async_request(request)


@pytest.mark.parametrize("read", [including, getting, getting_one])
async def test_the_gateway_lets_a_client_pause_after_a_long_text_and_not_before_plain_searches(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[Stack], Awaitable[int]]
) -> None:
    monkeypatch.setattr(long_answers, "PAUSE_S_PER_CHARACTER", 1.0)
    async with opened_stack() as stack:
        document = {"id": "plum", "text": "plum " + "x" * LONG}
        await stack.client.post("/v1/collections/demo/documents", json={"documents": [document]})
        assert [await read(stack), await read(stack)] == [200, 200]  # nobody else searches
        monkeypatch.setattr(stack.wires["lexical"], "_inner", SearchedMeanwhile(stack))
        assert [await read(stack), await read(stack)] == [200, 429]
        assert (await stack.search("plum", "bm25")).status_code == 200
