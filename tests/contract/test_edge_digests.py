"""The digest that an Edge generation keeps with its writes is the one that its files give when they are read again."""

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import qdrant_edge as edge

from services.chassis.errors import UpstreamFailed
from services.contracts.content_digest import ContentDigest
from services.contracts.documents import Document
from services.lexical.engine_edge import EdgeEngine
from services.storage.edge_directory import DEFAULT_LIMITS, EdgeDirectory
from services.storage.point_ids import point_id
from services.vectorstore.store_edge import SCHEMA, EdgeStore
from tests.support.lexical_notes import WITH_FIELDS
from tests.support.scratch import scratch
from tests.support.vectors import SPEC, axis, point

pytestmark = pytest.mark.integration

NAMES = [f"d{number}" for number in range(60)]
STEPS, SEED = 16, 20_261_126


@pytest.fixture
def directory() -> Iterator[Path]:
    with scratch() as directory:
        yield directory / "held"


def copied(directory: Path) -> Path:
    """Returns a copy, as a killed process leaves its files."""
    copy = directory.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    return shutil.copytree(directory, copy)


async def counted_texts(directory: Path) -> str:
    engine = EdgeEngine(copied(directory))
    digest = await engine.digest("notes@1")
    await engine.close()
    return digest


async def counted_vectors(directory: Path) -> str:
    store = EdgeStore(copied(directory))
    digest = await store.digest("notes@1")
    await store.close()
    return digest


async def test_texts_written_refused_deleted_and_opened_again(directory: Path) -> None:
    rng = random.Random(SEED)
    engine = EdgeEngine(directory)
    await engine.begin("notes@1", WITH_FIELDS)
    for step in range(2, STEPS):
        chosen, version = rng.sample(NAMES, rng.randrange(1, 40)), rng.choice([step, step, 1])  # 1: overtaken
        match rng.randrange(5):
            case 0:
                await engine.delete("notes@1", chosen, version)
            case 1:
                await engine.close()
                engine = EdgeEngine(directory)
            case _:
                years = {one: rng.choice([1.0, 2.0, "none"]) for one in chosen}  # "none" is refused
                await engine.index(
                    "notes@1",
                    [Document(id=one, text=rng.choice("abc"), metadata={"year": years[one]}) for one in chosen],
                    version,
                )
        if rng.random() < 0.4:
            await engine.finish("notes@1")
            assert await engine.digest("notes@1") == await counted_texts(directory)
    assert await engine.digest("notes@1") == await counted_texts(directory)
    assert (await engine.state("notes@1")).documents > 0
    await engine.close()


async def test_vectors_written_deleted_and_opened_again(directory: Path) -> None:
    rng = random.Random(SEED)
    store = EdgeStore(directory)
    await store.create(SPEC)
    held: dict[str, str] = {}
    for _ in range(STEPS):
        chosen = rng.sample(NAMES, rng.randrange(1, 40))
        match rng.randrange(5):
            case 0:
                await store.delete("notes@1", chosen)
                held = {one: content for one, content in held.items() if one not in chosen}
            case 1:
                await store.close()
                store = EdgeStore(directory)
            case _:
                points = [replace(point(one, axis(1.0)), content_hash=rng.choice("abc")) for one in chosen]
                await store.upsert("notes@1", points)
                held |= {one.id: one.content_hash for one in points}
        if rng.random() < 0.4:
            await store.finish("notes@1")
            assert await store.digest("notes@1") == await counted_vectors(directory)
    expected = ContentDigest()
    expected.add(held.items())
    assert await store.digest("notes@1") == await counted_vectors(directory) == expected.hexdigest()
    await store.close()


async def test_a_write_that_fails_midway_counts_with_what_it_wrote(directory: Path) -> None:
    store = EdgeStore(directory)
    await store.create(SPEC)
    await store.upsert("notes@1", [point(one, axis(1.0)) for one in NAMES])
    whole = await store.digest("notes@1")
    await store.close()
    held = EdgeDirectory(directory, SCHEMA, DEFAULT_LIMITS, threads=1)

    def torn(shard: edge.EdgeShard, _change: ContentDigest) -> None:
        shard.update(edge.UpdateOperation.delete_points([point_id("d7")]))
        raise OSError("torn")

    assert await held.held("notes@1").digest("content") == whole
    with pytest.raises(UpstreamFailed, match="torn"):
        await held.held("notes@1").write(torn)
    left = ContentDigest()
    left.add((one.id, one.content_hash) for one in (point(name, axis(1.0)) for name in NAMES) if one.id != "d7")
    assert await held.held("notes@1").digest("content") == left.hexdigest()
    await held.close()
