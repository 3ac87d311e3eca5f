"""A journal that a shipper of logs has put into a real Elasticsearch is read and forgotten as the folder is."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from elasticsearch import AsyncElasticsearch
from elasticsearch.helpers import async_bulk

from evaluator.online.journal import EVENTS, QUERIES, forget, read_journals
from services.contracts.online import Event, Exposure
from services.lexical.settings import LexicalSettings
from tests.support.journals import did, hours, shown, write_journal
from tests.support.lexical_notes import client_of

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

TEMPLATES = Path(__file__).parents[2] / "deploy" / "journal"
SEARCHES = [shown(f"u{number}", number) for number in range(600)]
LINES: list[Exposure | Event] = [*SEARCHES, *(did(search, object_id="y") for search in SEARCHES)]


async def ship(client: AsyncElasticsearch) -> None:
    for kind in (QUERIES, EVENTS):
        await client.indices.put_index_template(name=kind, **json.loads((TEMPLATES / f"{kind}.json").read_text()))
    twice: list[Exposure | Event] = [*LINES, *LINES[:5]]
    documents = (
        {
            "_index": QUERIES if isinstance(line, Exposure) else EVENTS,
            **line.model_dump(mode="json"),
            "agent": "shipper",
        }
        for line in twice
    )
    await async_bulk(client, documents, refresh=True)


@pytest.fixture
async def address(elasticsearch_url: str) -> AsyncIterator[str]:
    async with client_of(LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url)) as client:
        await ship(client)
        yield elasticsearch_url
        await client.indices.delete(index=f"{QUERIES},{EVENTS}", ignore_unavailable=True)
        for kind in (QUERIES, EVENTS):
            await client.indices.delete_index_template(name=kind)


async def test_an_index_is_read_and_forgotten_as_the_folder_is(address: str, tmp_path: Path) -> None:
    folder = str(write_journal(tmp_path / "journal", LINES))
    (of_index,) = await asyncio.to_thread(read_journals, [address], hours(1_000))
    (of_folder,) = read_journals([folder], hours(1_000))
    assert of_index.units == of_folder.units
    assert (of_index.torn, len(of_index.units)) == (0, 600)
    assert await asyncio.to_thread(forget, "u599", [address, folder]) == 4
    (left,) = await asyncio.to_thread(read_journals, [address, folder], hours(1_000))
    assert (len(left.units), "u599" in left.units) == (599, False)


async def test_an_index_without_events_yet_is_read(address: str) -> None:
    async with client_of(LexicalSettings(engine="elasticsearch", elasticsearch_url=address)) as client:
        await client.indices.delete(index=EVENTS)
    (journal,) = await asyncio.to_thread(read_journals, [address], hours(1_000))
    assert len(journal.units) == 600
