"""A collection is exported to a file and restored from it: equal contents and equal rankings; real services."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.client.client import GatewayClient, connected
from evaluator.commands import collection_copy
from evaluator.commands.collection_copy import exported_collection, restored_collection
from evaluator.commands.collection_file import ExportedCollection
from evaluator.errors import DatasetError, EvaluationError
from retrieval_client import loading
from tests.support.real_stack import RealStack, real_stack

DECLARED = {
    "presets": ["anserini-flat", {"name": "mine", "match": "flat", "k1": 2.0, "b": 0.1}],
    "metadata": {"year": "number", "kind": "keyword"},
}
WORDS = ("salt", "bread", "apple", "curd", "plum")
DOCUMENTS = [
    {
        "id": f"{WORDS[number % 5]}/{number}",
        "title": WORDS[number % 3],
        "text": " ".join(WORDS[: 1 + number % 5]) + " \u2028é\n" * (number % 2),
        "metadata": {"year": 2000 + number, "share": number / 7, "kind": ["a", "b"], "whole": True},
    }
    for number in range(30)
]
DENSE = {"name": "d", "stages": [{"kind": "retrieve", "backend": "dense"}]}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as stack:
        await stack.load(DOCUMENTS, **DECLARED)
        yield stack


@pytest.fixture
async def client(stack: RealStack) -> AsyncIterator[GatewayClient]:
    async with connected("http://stack", stack.into_gateway) as client:
        yield client


async def rankings(stack: RealStack) -> list[object]:
    """Returns ids and scores of several searches."""
    year = {"all": [{"field": "year", "op": "gte", "value": 2010}]}
    mine = {"name": "m", "stages": [{"kind": "retrieve", "backend": "lexical", "preset": "mine"}]}
    found = []
    for asked in ({"pipeline": "bm25"}, {"pipeline": mine}, {"pipeline": DENSE}, {"pipeline": DENSE, "filter": year}):
        answer = await stack.post("/search", query="salt and plum", top=30, **asked)
        assert answer.status_code == 200, answer.text
        found.append(answer.json()["hits"])
    return found


async def test_a_dropped_collection_is_restored_with_equal_contents_and_rankings(
    stack: RealStack, client: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_copy, "PAGE_DOCUMENTS", 7)
    before, digests = await rankings(stack), await stack.digests("c@1")
    end = await exported_collection(client, "c", tmp_path / "c.ndjson")
    assert end.documents == 30
    assert set(digests.values()) == {end.digest}

    await client.remove("c")
    published, encoded = await restored_collection(client, ExportedCollection.read(tmp_path / "c.ndjson"), "c")
    assert (published.generation, published.documents) == ("c@1", 30)
    assert encoded > 0
    assert await stack.digests("c@1") == digests
    assert await rankings(stack) == before
    again = await exported_collection(client, "c", tmp_path / "again.ndjson")
    assert again == end
    heads = [(tmp_path / name).read_text().split("\n")[0] for name in ("c.ndjson", "again.ndjson")]
    assert heads[0] == heads[1]


async def test_a_restore_replaces_what_the_collection_has(
    stack: RealStack, client: GatewayClient, tmp_path: Path
) -> None:
    end = await exported_collection(client, "c", tmp_path / "c.ndjson")
    changed = {"id": DOCUMENTS[0]["id"], "text": "changed"}
    assert (await stack.send([changed, {"id": "new", "text": "salt"}])).json()["complete"]
    published, _ = await restored_collection(client, ExportedCollection.read(tmp_path / "c.ndjson"), "c")
    assert (published.generation, published.documents) == ("c@2", 30)
    assert set((await stack.digests("c@2")).values()) == {end.digest}
    assert await stack.live() == {"lexical": 30, "dense": 30}


async def test_with_vectors_a_restore_encodes_nothing(
    stack: RealStack, client: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_copy, "PAGE_DOCUMENTS", 7)
    before, digests = await rankings(stack), await stack.digests("c@1")
    end = await exported_collection(client, "c", tmp_path / "c.ndjson", vectors=True)
    await client.remove("c")
    exported = ExportedCollection.read(tmp_path / "c.ndjson")
    assert list(exported.head.stamps) == ["dense"]
    # As from a server with two shards, which do not change the vectors.
    stamps = {"dense": {**exported.head.stamps["dense"], "index": "shards=2"}}
    exported = replace(exported, head=exported.head.model_copy(update={"stamps": stamps}))
    published, encoded = await restored_collection(client, exported, "c")
    assert (published.documents, encoded) == (30, 0)
    assert await stack.digests("c@1") == digests
    assert await rankings(stack) == before
    assert await exported_collection(client, "c", tmp_path / "again.ndjson", vectors=True) == end


async def test_vectors_of_another_model_or_backend_are_refused(
    stack: RealStack, client: GatewayClient, tmp_path: Path
) -> None:
    await exported_collection(client, "c", tmp_path / "c.ndjson", vectors=True)
    exported = ExportedCollection.read(tmp_path / "c.ndjson")
    for stamps, words in (
        ({"dense": {**exported.head.stamps["dense"], "weights_sha256": "ab"}}, "weights_sha256: ab in the file, none"),
        ({"far": exported.head.stamps["dense"]}, "does not live on one"),
    ):
        other = replace(exported, head=exported.head.model_copy(update={"stamps": stamps}))
        with pytest.raises(EvaluationError, match=words):
            await restored_collection(client, other, "c")
        assert (await client.collection("c")).building is None  # writes would go to it, too
    assert await stack.live() == {"lexical": 30, "dense": 30}


async def test_of_vectors_that_no_call_can_carry_it_is_said_how_to_do_without(
    client: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await exported_collection(client, "c", tmp_path / "c.ndjson", vectors=True)
    monkeypatch.setattr(loading, "MOST_BATCH_BYTES", 1_000)
    with pytest.raises(EvaluationError, match=r"document '\S+': 1\d+ bytes; .*; export without --vectors"):
        await restored_collection(client, ExportedCollection.read(tmp_path / "c.ndjson"), "c")


async def test_a_page_has_no_vector_of_a_text_that_was_replaced_meanwhile(
    stack: RealStack, client: GatewayClient
) -> None:
    before = await client.document_page("c", None, 100, vectors=True)
    assert {vector.model for one in before.documents for vector in one.vectors.values()} == {"hashing"}
    assert [set(one.vectors) for one in before.documents] == [{"dense"}] * 30
    changed = [{**one, "text": "another"} for one in DOCUMENTS[:10]]

    class Replacing(httpx.AsyncBaseTransport):
        """Replaces documents before it asks for vectors."""

        def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
            self._inner = inner

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/documents/vectors"):
                assert (await stack.send(changed)).json()["complete"]
            return await self._inner.handle_async_request(request)

    stack.ways["dense"].inner = Replacing(stack.ways["dense"].inner)
    page = await client.document_page("c", None, 100, vectors=True)
    new = {one["id"] for one in changed}
    assert {one.id: set(one.vectors) for one in page.documents} == {
        one.id: set() if one.id in new else {"dense"} for one in before.documents
    }
    assert {one.text for one in page.documents if one.id in new}.isdisjoint({"another"})


async def test_vectors_are_of_backends_that_have_them(stack: RealStack, client: GatewayClient) -> None:
    page = await client.document_page("c", None, 1, vectors=True)
    [document] = page.documents
    given = document.vectors["dense"].model_dump()
    for backend in ("lexical", "none"):
        refused = await stack.send([{"id": "x", "text": "x", "vectors": {backend: given}}])
        assert (refused.status_code, "backends that take dense ones: dense" in refused.json()["detail"]) == (422, True)
    wrong = await stack.send([{"id": "x", "text": "x", "vectors": {"dense": {**given, "model": "other"}}}])
    assert (wrong.json()["complete"], "of the model other" in wrong.text) == (False, True)
    taken = await stack.send([{"id": "x", "text": "x", "vectors": {"dense": given}}])
    assert taken.json()["complete"]
    assert (await stack.texts(["x"])) == {"x": "x"}
    assert "vectors" not in (await stack.post("/documents/get", ids=["x"])).text


async def test_a_generation_that_is_published_during_an_export_ends_it_and_leaves_no_file(
    stack: RealStack, client: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_copy, "PAGE_DOCUMENTS", 10)
    first = await client.document_page("c", None, 10)
    stack.into_gateway.hold = (f"after={first.following}".encode(), asyncio.Event())
    export = asyncio.create_task(exported_collection(client, "c", tmp_path / "c.ndjson"))
    await stack.begin(build="next", new_generation=True, **DECLARED)
    await stack.send(DOCUMENTS, build="next")
    assert (await stack.post("/publish", build="next")).status_code == 200
    stack.into_gateway.hold[1].set()
    with pytest.raises(EvaluationError, match="c@2 took the place of c@1"):
        await export
    assert files(tmp_path) == []


async def test_a_name_of_a_packed_file_is_refused(client: GatewayClient, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"name it c\.ndjson, and pack that"):
        await exported_collection(client, "c", tmp_path / "c.ndjson.gz")
    assert files(tmp_path) == []


async def test_what_is_not_published_is_not_exported(stack: RealStack, client: GatewayClient, tmp_path: Path) -> None:
    assert (await stack.client.put("/v1/collections/new", json={"build": "b"})).status_code == 200
    with pytest.raises(EvaluationError, match="new has no published generation"):
        await exported_collection(client, "new", tmp_path / "new.ndjson")
    assert files(tmp_path) == []


def files(directory: Path) -> list[Path]:
    """Returns the files of exports, and their parts."""
    return list(directory.glob("*.ndjson*"))


HEAD = '{"collection_export":1,"collection":"c","generation":"c@1","declaration":{}}\n'
ONE = '{"id":"a","text":"salt"}\n'
END = '{"documents":1,"digest":"05","sha256":"05"}\n'


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "no exported collection"),
        (HEAD.replace("1", "2", 1), "no exported collection"),
        (HEAD.replace("{}", '{"later": 1}'), "no exported collection"),
        (HEAD, "cut short"),
        (HEAD + ONE + END, "it was changed"),
        (HEAD + ONE.replace("text", "texts") + END, "f.ndjson:2"),
        (HEAD + ONE + END + ONE, "f.ndjson:3"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_before_the_gateway_is_asked(
    content: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "f.ndjson").write_text(content)
    done = command("restore", str(tmp_path / "f.ndjson"), "--collection", "c")
    assert done.exit_code == 1
    assert words in done.stderr


async def test_a_file_without_one_of_its_lines_or_with_another_is_refused(
    client: GatewayClient, tmp_path: Path
) -> None:
    path = tmp_path / "c.ndjson"
    await exported_collection(client, "c", path, vectors=True)
    lines = path.read_text(encoding="utf-8").split("\n")
    assert json.loads(lines[0])["declaration"]["metadata"] == DECLARED["metadata"]
    weight = re.sub(r"0\.(\d)", r"0.1\1", lines[5][lines[5].index('"vectors"') :], count=1)
    for wrong in (
        [lines[0].replace("keyword", "number"), *lines[1:]],
        [*lines[:5], *lines[6:]],
        [*lines[:5], lines[5].replace('"year":20', '"year":21'), *lines[6:]],
        [*lines[:5], lines[5][: lines[5].index('"vectors"')] + weight, *lines[6:]],
    ):
        assert wrong != lines
        path.write_text("\n".join(wrong), encoding="utf-8")
        with pytest.raises(DatasetError, match="it was changed"):
            ExportedCollection.read(path)
    path.write_text("\n".join(lines), encoding="utf-8")
    assert len(list(ExportedCollection.read(path).documents())) == 30


def command(*words: str) -> Result:
    """Calls the command line; no gateway listens where it would ask."""
    return CliRunner().invoke(app, [*words, "--gateway", "http://127.0.0.1:9", "--wait", "0"])
