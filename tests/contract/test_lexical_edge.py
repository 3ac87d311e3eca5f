"""Checks that the Edge engine keeps the promises of LexicalEngine, and its own."""

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.chassis.deadlines import Deadline, set_deadline
from services.chassis.errors import Unavailable
from services.lexical.edge_documents import SCHEMA, bm25_request
from services.lexical.engine import LexicalEngine
from services.lexical.engine_edge import EdgeEngine
from services.lexical.presets import chosen_preset
from services.storage import edge_generation
from services.storage.edge_directory import DEFAULT_LIMITS, EdgeDirectory
from services.storage.edge_files import RECORD
from tests.contract.lexical_engine import LexicalEngineSuite
from tests.support.lexical_notes import ALL_PRESETS, NOTES, EngineOpener, documents, filled, found, request_for
from tests.support.scratch import scratch


class EdgeOpener(EngineOpener):
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def open(self) -> EdgeEngine:
        return EdgeEngine(self.directory)

    async def change_stamp(self, engine: LexicalEngine, generation: str) -> LexicalEngine:
        await engine.close()
        path = self.directory / generation / RECORD
        record = json.loads(path.read_text())
        # The stamp of the release that cut words at combining marks.
        record["stamp"]["analysis"] = "english-0630c9942f4e"
        path.write_text(json.dumps(record))
        return await self.open()


@pytest.fixture
def opener() -> Iterator[EdgeOpener]:
    with scratch() as directory:
        yield EdgeOpener(directory / "lexical")


class TestEdge(LexicalEngineSuite):
    """Every promise, on Qdrant Edge."""


async def test_a_directory_in_use_is_refused_in_one_sentence(opener: EdgeOpener) -> None:
    engine = await opener.open()
    with pytest.raises(Unavailable):
        await opener.open()
    await engine.close()
    await (await opener.open()).close()


async def test_the_ids_that_searches_keep_are_bounded(opener: EdgeOpener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge_generation, "MOST_KNOWN_IDS", 10)
    engine = await opener.open()
    await filled(engine, documents({f"d{number}": f"brake w{number}" for number in range(100)}))
    await engine.close()
    held = EdgeDirectory(opener.directory, SCHEMA, DEFAULT_LIMITS, threads=1)
    generation = held.held("notes@1")
    beir = chosen_preset(ALL_PRESETS, "beir")

    async def found_ids(word: str) -> list[str]:
        return [hit.id for hit in await generation.ranking(bm25_request(beir, [word], None, 10))]

    for number in range(100):
        assert await found_ids(f"w{number}") == [f"d{number}"]
        assert len(generation.known_ids) <= 11
    await held.close()


async def test_searches_go_on_while_a_batch_is_indexed(opener: EdgeOpener) -> None:
    engine = await opener.open()
    await filled(engine, documents(NOTES))
    batch = documents({f"d{number}": "wheel " * 400 for number in range(256)})
    indexing = asyncio.create_task(engine.index("notes@1", batch))
    await asyncio.sleep(0)
    assert await found(engine, "notes@1", "squeals") == ["n1"]
    assert not indexing.done()
    assert (await indexing).indexed == 256
    await engine.close()


async def test_documents_that_would_be_late_hold_no_hits_back(opener: EdgeOpener) -> None:
    engine = await opener.open()
    await filled(engine, documents(NOTES))
    set_deadline(Deadline.after_ms(1_000))
    freed = threading.Event()
    occupying = asyncio.create_task(engine._held.held("notes@1").read(lambda _: freed.wait()))
    await asyncio.sleep(0)  # the only thread that reads documents waits
    hits, sent = await engine.search_with_documents("notes@1", request_for("pad", include=["text"]))
    freed.set()
    await occupying
    assert ({hit.id for hit in hits}, sent) == ({"n1", "n4"}, ())
    await engine.close()


async def test_searches_and_the_event_loop_go_on_while_many_deletions_are_merged(opener: EdgeOpener) -> None:
    engine = await opener.open()
    await engine.begin("notes@1", ALL_PRESETS)
    words = [f"w{number}" for number in range(5_000)]
    ids = [f"d{number}" for number in range(2_000)]
    texts = {one: " ".join([*words[place : place + 100], "wheel"]) for place, one in enumerate(ids)}
    await engine.index("notes@1", documents(texts))
    await engine.delete("notes@1", ids[:800])
    clock = asyncio.get_running_loop().time
    finishing = asyncio.create_task(engine.finish("notes@1"))
    started = last = clock()
    longest, answers = 0.0, 0
    while not finishing.done():
        assert len((await engine.get("notes@1", [ids[-1]])).documents) == 1
        longest, answers = max(longest, clock() - last), answers + 1
        last = clock()
        await asyncio.sleep(0.005)
    logging.info("finish %.2f s, longest gap %.2f s, %d reads", clock() - started, longest, answers)
    assert (await finishing).documents == 1_200
    assert answers > 10
    assert longest < (clock() - started) / 2
    assert len(await found(engine, "notes@1", "wheel", top=1_000)) == 1_000
    await engine.close()
