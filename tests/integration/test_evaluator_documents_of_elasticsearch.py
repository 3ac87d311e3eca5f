"""`datasets from` copies an index of a real Elasticsearch."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from elasticsearch import AsyncElasticsearch
from elasticsearch.helpers import async_bulk
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.datasets.elasticsearch_index import PAGE
from evaluator.datasets.reader import read_dataset
from services.lexical.settings import LexicalSettings
from tests.support.lexical_notes import client_of

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

DOCUMENTS = 2 * PAGE + 1


async def fill(client: AsyncElasticsearch, index: str) -> None:
    documents = (
        {"_index": index, "_id": f"p{number}", "name": f"Part {number}", "body": {"en": f"It fits bell {number}."}}
        for number in range(DOCUMENTS)
    )
    await async_bulk(client, documents, refresh=True)


@pytest.fixture
async def index(elasticsearch_url: str) -> AsyncIterator[str]:
    """The address of an index of more than two pages."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    async with client_of(LexicalSettings(engine="elasticsearch", elasticsearch_url=elasticsearch_url)) as client:
        await fill(client, name)
        yield f"{elasticsearch_url}/{name}"
        await client.indices.delete(index=name)


async def copied(source: str, folder: Path) -> Result:
    queries = folder / "q.csv"
    queries.write_text("query,document\nwhich part fits bell 7,part 7\n")
    words = ["datasets", "from", source, "--text", "body.en", "--queries", str(queries), "--to", str(folder / "made")]
    return await asyncio.to_thread(CliRunner().invoke, app, words)


async def test_every_document_of_an_index_comes_with_its_id(index: str, tmp_path: Path) -> None:
    done = await copied(index, tmp_path)
    assert done.exit_code == 0, done.stderr
    read = read_dataset(tmp_path / "made", strict=True)
    assert read.counts.documents == DOCUMENTS
    titles_and_texts = {document.id: (document.title, document.text) for document in read.documents()}
    assert titles_and_texts["p1000"] == ("Part 1000", "It fits bell 1000.")
    assert list(read.judgments.values()) == [{"p7": 1}]


async def test_an_index_that_is_not_there_is_refused_by_its_address(index: str, tmp_path: Path) -> None:
    done = await copied(f"{index}-not", tmp_path)
    assert (done.exit_code, (tmp_path / "made").exists()) == (1, False)
    assert f"{index}-not/_search" in done.stderr
