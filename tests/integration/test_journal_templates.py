"""A real Elasticsearch takes the templates of deploy/journal, and finds a journal's lines by unit and experiment."""

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from elasticsearch import AsyncElasticsearch

from services.chassis.settings.strict_yaml import parse_yaml
from services.lexical.settings import LexicalSettings
from tests.contract.test_online_experiments import OF_BM25, OF_DENSE, search, shop
from tests.support.lexical_notes import client_of

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
FOLDER = Path(__file__).parents[2] / "deploy" / "journal"
KINDS = ("ubi_queries", "ubi_events")


@pytest.fixture
async def client(elasticsearch_url: str) -> AsyncIterator[tuple[AsyncElasticsearch, str]]:
    """A client, and a prefix of indexes of this test; the templates apply to indexes with it."""
    prefix = f"test-{uuid.uuid4().hex[:12]}-"
    async with client_of(LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url)) as client:
        for kind in KINDS:
            template = json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))
            template["index_patterns"] = [prefix + pattern for pattern in template["index_patterns"]]
            await client.indices.put_index_template(name=f"{prefix}{kind}", **template)
        yield client, prefix
        for kind in KINDS:
            await client.indices.delete(index=f"{prefix}{kind}", ignore_unavailable=True)
            await client.indices.delete_index_template(name=f"{prefix}{kind}")


async def test_lines_of_a_journal_are_found_by_unit_and_experiment(
    client: tuple[AsyncElasticsearch, str], tmp_path: Path
) -> None:
    elasticsearch, prefix = client
    async with shop(tmp_path) as stack:
        for unit in (OF_BM25, OF_DENSE, OF_DENSE):
            answer: httpx.Response = await search(stack, unit)
            click = {"query_id": answer.json()["request_id"], "client_id": unit, "action_name": "click"}
            event = {**click, "event_id": uuid.uuid4().hex, "object_id": "apple", "position": 1, "value": 2.5}
            assert (await stack.client.post("/v1/events", json={"events": [event]})).status_code == 204
    for kind in KINDS:
        lines = [json.loads(line) for line in written(tmp_path / "journal", kind)]
        operations = [part for line in lines for part in ({"index": {"_index": prefix + kind}}, line)]
        assert not (await elasticsearch.bulk(operations=operations, refresh=True))["errors"]
        found = await elasticsearch.search(index=prefix + kind, query={"term": {"client_id": OF_DENSE}})
        hits = [hit["_source"] for hit in found["hits"]["hits"]]
        assert hits == [line for line in lines if line["client_id"] == OF_DENSE]
        assert len(hits) == 2
    asked = {"bool": {"filter": [{"term": {"query_attributes.experiment": "shop"}}]}}
    assert (await elasticsearch.count(index=f"{prefix}ubi_queries", query=asked))["count"] == 3
    mapping = (await elasticsearch.indices.get_mapping(index=f"{prefix}ubi_queries"))[f"{prefix}ubi_queries"]
    # Whatever arms are called, shares and failures add no field.
    assert (
        not {"shares", "failed", "teams"} & mapping["mappings"]["properties"]["query_attributes"]["properties"].keys()
    )


def written(folder: Path, kind: str) -> list[bytes]:
    return [line for file in folder.glob(f"{kind}-*") for line in file.read_bytes().splitlines()]


def test_the_shipper_reads_the_files_and_fills_the_indexes_of_the_templates() -> None:
    pipeline = parse_yaml((FOLDER / "fluent-bit.yaml").read_text(encoding="utf-8"))["pipeline"]
    assert [(each["tag"], Path(each["path"]).name) for each in pipeline["inputs"]] == [
        (kind, f"{kind}-*.jsonl") for kind in KINDS
    ]
    assert [(each["match"], each["index"]) for each in pipeline["outputs"]] == [(kind, kind) for kind in KINDS]
