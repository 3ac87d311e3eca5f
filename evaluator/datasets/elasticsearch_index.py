"""Reads the documents of an Elasticsearch index (or of OpenSearch) by its scroll API. Deletes some on request."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated

import httpx
from pydantic import AliasPath, BaseModel, Field, ValidationError

from evaluator.datasets.elasticsearch_access import read_elasticsearch_access
from evaluator.datasets.placed_documents import PlacedDocument, ReadingNotes
from evaluator.errors import DatasetError
from services.chassis.settings.addresses import server_address

# How long the server keeps the search open for the next page: above the time that writing one takes.
KEPT = "5m"
# A page is in memory whole on both sides: 500 documents of 100 kB are 50 MB.
PAGE = 500
TIMEOUT_S = 60.0
MOST_QUOTED = 300
JSON = {"content-type": "application/json"}


class IndexHit(BaseModel):
    """A document of a page; without `_source`, the index does not keep what was sent."""

    id: Annotated[str, Field(alias="_id")]
    index: Annotated[str, Field(alias="_index")] = ""
    source: Annotated[dict[str, object] | None, Field(alias="_source")] = None


class IndexPage(BaseModel):
    """An answer of the scroll API; the last one has no hit. The documents of `failed` shards are missing."""

    scroll_id: Annotated[str, Field(validation_alias="_scroll_id")] = ""
    failed: Annotated[int, Field(validation_alias=AliasPath("_shards", "failed"))]
    hits: Annotated[list[IndexHit], Field(validation_alias=AliasPath("hits", "hits"))]


def index_rows(url: str, notes: ReadingNotes) -> Iterator[PlacedDocument]:
    """Yields place and fields of every document of an index, `http://host:9200/index`, as it was when reading began.

    Its id in Elasticsearch is `_id`. ELASTICSEARCH_API_KEY and ELASTICSEARCH_CA_FILE are those of the lexical service.
    Raises DatasetError, which names the address, for whatever the server refuses.
    """
    with _opened(url) as (client, server, index):
        page = _page(client, f"{server}/{index}/_search?scroll={KEPT}", {"size": PAGE, "sort": ["_doc"]})
        try:
            while page.hits:
                for hit in page.hits:
                    place = f"{url}/_doc/{hit.id}"
                    if hit.source is None:
                        notes.wrong(f"{place}: no _source: the index does not keep its documents")
                    else:
                        yield place, {"_id": hit.id, **hit.source}
                page = _page(client, f"{server}/_search/scroll", {"scroll": KEPT, "scroll_id": page.scroll_id})
        finally:
            with suppress(httpx.HTTPError):  # the server ends the search by itself after KEPT
                client.request("DELETE", f"{server}/_search/scroll", json={"scroll_id": page.scroll_id})


def delete_matching(url: str, field: str, value: str) -> int:
    """Deletes the documents of an index whose keyword `field` has this value. Returns how many. Raises DatasetError."""
    deleted = 0
    with _opened(url) as (client, server, index):
        found = {"size": PAGE, "query": {"term": {field: value}}}
        # Without _delete_by_query, which is of a module that our own small Elasticsearch does not have.
        while hits := _page(client, f"{server}/{index}/_search", found).hits:
            lines = ({"delete": {"_index": hit.index, "_id": hit.id}} for hit in hits)
            answer = _answer(client, f"{server}/_bulk?refresh=true", *lines)
            if json.loads(answer)["errors"]:
                raise DatasetError(f"{url}: not deleted: {answer.decode()[:MOST_QUOTED]}")
            deleted += len(hits)
    return deleted


@contextmanager
def _opened(url: str) -> Iterator[tuple[httpx.Client, str, str]]:
    """Yields a client, the address of the server, and the name of the index. Raises DatasetError."""
    try:
        server, _, index = server_address(url).rpartition("/")
    except ValueError as error:
        raise DatasetError(f"an address among the sources: {error}") from error  # without the password that it may hold
    if not index or server.endswith("/"):
        raise DatasetError(f"{url}: no index: write it behind the address, as in http://127.0.0.1:9200/products")
    access = read_elasticsearch_access()
    with httpx.Client(
        timeout=TIMEOUT_S, trust_env=False, verify=access.context(), headers=access.headers(server)
    ) as client:
        yield client, server, index


def _answer(client: httpx.Client, url: str, *lines: Mapping[str, object]) -> bytes:
    content = "".join(f"{json.dumps(line)}\n" for line in lines)
    try:
        return client.post(url, content=content, headers=JSON).raise_for_status().content
    except httpx.HTTPStatusError as error:
        raise DatasetError(f"{url}: HTTP {error.response.status_code}: {error.response.text[:MOST_QUOTED]}") from error
    except httpx.HTTPError as error:
        raise DatasetError(f"{url}: {error or type(error).__name__}") from error


def _page(client: httpx.Client, url: str, body: Mapping[str, object]) -> IndexPage:
    try:
        page = IndexPage.model_validate_json(_answer(client, url, body))
    except ValidationError as error:
        raise DatasetError(f"{url}: no answer of Elasticsearch's search") from error
    if page.failed:
        raise DatasetError(f"{url}: {page.failed} shards did not answer: documents would be missing")
    return page
