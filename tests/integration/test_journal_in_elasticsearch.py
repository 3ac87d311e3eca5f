"""The index templates of deploy/journal, and the lines of a journal, in a real Elasticsearch."""

import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from elasticsearch import AsyncElasticsearch

from services.contracts.online import Event, Exposure, SentEvent, ShownAttributes, event_lines
from services.lexical.settings import LexicalSettings
from tests.support.lexical_notes import client_of

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
TEMPLATES = Path(__file__).parents[2] / "deploy" / "journal"
NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.fixture
async def client(elasticsearch_url: str) -> AsyncIterator[AsyncElasticsearch]:
    async with client_of(LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url)) as opened:
        yield opened


async def shipped(client: AsyncElasticsearch, kind: str, lines: bytes) -> str:
    """Puts the template under a name of this test and the lines, with the field that fluent-bit adds, into an index."""
    index = f"{kind}-{uuid.uuid4().hex[:12]}"
    template = json.loads((TEMPLATES / f"{kind}.json").read_text())
    assert template["index_patterns"] == [f"{kind}*"]
    await client.indices.put_index_template(
        name=index, index_patterns=[index], template=template["template"], priority=500
    )
    operations: list[dict[str, object]] = []
    for line in lines.splitlines():
        operations += [{"create": {"_index": index}}, {**json.loads(line), "@timestamp": NOW.isoformat()}]
    assert not (await client.bulk(operations=operations, refresh=True))["errors"]
    return index


async def removed(client: AsyncElasticsearch, index: str) -> None:
    await client.indices.delete(index=index)
    await client.indices.delete_index_template(name=index)


async def test_exposures_are_found_by_their_experiment_as_they_were_written(client: AsyncElasticsearch) -> None:
    shown = [
        Exposure(
            query_id=f"q{number}", client_id="user-1", timestamp=NOW, query_response_hit_ids=("d1", "d2"),
            query_attributes=ShownAttributes(
                experiment=name, salt="winter", mode="interleave", metric="click@10", shares={"a": 0.5, "b": 0.5},
                collection="demo", teams=("a", None), ms=3.5,
            ),
        )
        for number, name in enumerate(("shop", "shop-two", "shop"))
    ]  # fmt: skip
    lines = b"".join(each.model_dump_json(exclude_none=True).encode() + b"\n" for each in shown)
    index = await shipped(client, "ubi_queries", lines)
    found = await client.search(index=index, query={"term": {"query_attributes.experiment": "shop"}})
    sources = [Exposure.model_validate_json(json.dumps(hit["_source"])) for hit in found["hits"]["hits"]]
    assert sorted(sources, key=lambda each: each.query_id) == [shown[0], shown[2]]
    await removed(client, index)


async def test_the_events_of_a_unit_are_found_as_they_were_written(client: AsyncElasticsearch) -> None:
    sent = tuple(
        SentEvent(query_id="q", client_id=unit, action_name="click", event_id=f"e-{unit}", object_id="d/1", position=2)
        for unit in ("User-1", "user-1", "user-2")
    )
    index = await shipped(client, "ubi_events", event_lines(sent, NOW))
    found = (await client.search(index=index, query={"term": {"client_id": "user-1"}}))["hits"]["hits"]
    events = [Event.model_validate_json(json.dumps(hit["_source"])) for hit in found]
    assert [event.event_attributes.event_id for event in events] == ["e-user-1"]
    await removed(client, index)
