"""Checks damaged generations, foreign folders and quotas. On both Edge engines."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.chassis.errors import BadInput, Conflict, DamagedCollection
from services.contracts.collections import CollectionDeclaration
from services.storage.edge_child import copy
from services.storage.edge_directory import EdgeLimits
from services.storage.edge_files import PUBLISHED, RECORD
from tests.support.edge_subjects import SUBJECTS, numbered, opened
from tests.support.scratch import scratch


def listed(folder: Path, pattern: str = "*") -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _written(pattern: str, content: bytes) -> Callable[[Path], None]:
    """Returns a damage that replaces the content of every file of this pattern."""

    def damage(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.write_bytes(content)

    return damage


def _another_record(folder: Path) -> None:
    (folder / RECORD).write_text((folder.with_name("c@1") / RECORD).read_text())


def _pipe_for_a_record(folder: Path) -> None:
    (folder / RECORD).unlink()
    os.mkfifo(folder / RECORD)


def _no_shard(folder: Path) -> None:
    for shard in folder.glob("shard*"):
        shutil.rmtree(shard)


def _empty_shard(folder: Path) -> None:
    for shard in folder.glob("shard*"):
        shutil.rmtree(shard)
        shard.mkdir()


def _no_payload(folder: Path) -> None:  # opens without a word; only reading a document meets it
    for file in folder.glob("shard*/segments/*/payload_storage/page_0.dat"):
        file.write_bytes(bytes(file.stat().st_size))


@pytest.fixture(scope="module")
def finished() -> Iterator[Path]:
    """By kind, a directory of two finished generations; a test copies it."""

    async def finish(kind: str, directory: Path) -> None:
        async with opened(kind, directory) as subject:
            for generation in ("c@1", "c@2"):
                await subject.begin(generation)
                await subject.put(generation, ["a"])
                await subject.finish(generation)
                await subject.publish(generation)

    with scratch() as whole:
        for kind in SUBJECTS:
            asyncio.run(finish(kind, whole / kind))
        yield whole


@pytest.mark.parametrize(
    "damage",
    [
        _written(RECORD, b"{ not json"),
        _written(RECORD, b""),
        _another_record,
        _pipe_for_a_record,
        _no_shard,
        _empty_shard,
        _written("shard*/segments/*/vector_storage/deleted/status.dat", b""),  # a Rust panic, no Exception
        _written("shard*/segments/*/segment.json", b"\xff" * 100),
        _no_payload,
        _written("shard*/wal/open-*", b""),
    ],
)
async def test_a_damaged_generation_is_reported_and_the_others_serve(
    kind: str, directory: Path, finished: Path, damage: Callable[[Path], None]
) -> None:
    copy(str(finished / kind), str(directory))
    damage(directory / "c@2")
    before = listed(directory / "c@2")
    async with opened(kind, directory) as subject:
        assert await subject.found("c@1") == 1
        assert await subject.generations() == ("c@1",)
        assert [one.generation for one in await subject.unusable()] == ["c@2"]
        check = await subject.check()
        assert check.ok
        assert "c@2 cannot be opened" in check.detail
        for request in (subject.found("c@2"), subject.put("c@2", ["b"]), subject.begin("c@2"), subject.finish("c@2")):
            with pytest.raises(DamagedCollection):
                await request
        assert listed(directory / "c@2") == before
        await subject.drop("c@2")
        assert await subject.unusable() == ()
        await subject.begin("c@2")
        await subject.put("c@2", ["b"])
        assert await subject.held("c@2", ["a", "b"]) == {"b"}
    async with opened(kind, directory) as subject:
        assert await subject.generations() == ("c@1", "c@2")


async def test_a_finished_generation_that_lost_documents_is_reported_as_damaged(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["a"])
    earlier = shutil.copytree(directory / "c@1", directory.with_name("earlier"))
    async with opened(kind, directory) as subject:
        await subject.put("c@1", ["b"])
        await subject.finish("c@1")
    (shard,) = (directory / "c@1").glob("shard*")
    shutil.rmtree(shard)
    (of_earlier,) = earlier.glob("shard*")
    of_earlier.rename(shard)
    async with opened(kind, directory) as subject:
        assert [one.generation for one in await subject.unusable()] == ["c@1"]
        with pytest.raises(DamagedCollection, match="1 of its 2 documents"):
            await subject.held("c@1", ["a", "b"])


async def test_documents_that_have_lost_their_ids_are_detected_at_the_start(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", numbered(0, 1_100))
        await subject.delete("c@1", numbered(0, 300))
        await subject.finish("c@1")
    for file in (directory / "c@1").glob("shard*/segments/*/payload_storage/tracker.dat"):
        file.write_bytes(bytes(file.stat().st_size))
    async with opened(kind, directory) as subject:
        assert [one.generation for one in await subject.unusable()] == ["c@1"]
        with pytest.raises(DamagedCollection, match="0 of its 800 documents"):
            await subject.found("c@1")


async def test_lost_field_indexes_are_rebuilt(kind: str, directory: Path) -> None:
    declared = CollectionDeclaration(metadata={"year": "number"})
    async with opened(kind, directory) as subject:
        await subject.begin("c@1", declared)
        await subject.put("c@1", ["a"])
        await subject.finish("c@1")
    (lost,) = (directory / "c@1").glob("shard*/segments/*/payload_index/config.json")
    lost.unlink()
    async with opened(kind, directory) as subject:
        assert await subject.found("c@1") == 1
    (made,) = (directory / "c@1").glob("shard*/segments/*/payload_index/config.json")
    assert "year" in made.read_text()


async def test_a_generation_written_after_finishing_is_opened_with_all_documents(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["a", "b"])
        await subject.finish("c@1")
        await subject.delete("c@1", ["a"])
    async with opened(kind, directory) as subject:
        assert await subject.held("c@1", ["a", "b"]) == {"b"}
        await subject.finish("c@1")
    async with opened(kind, directory) as subject:
        assert await subject.held("c@1", ["a", "b"]) == {"b"}


async def test_a_damaged_published_json_is_kept_and_reported(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.publish("c@1")
    (directory / PUBLISHED).write_text("{ not json")
    async with opened(kind, directory) as subject:
        assert await subject.found("c@1") == 0
        assert "publish again" in (await subject.check()).detail
        await subject.publish("c@1")
        assert await subject.published() == {"c@1"}
    assert (directory / f"{PUBLISHED}.damaged").read_text() == "{ not json"


async def test_foreign_files_and_folders_are_never_changed(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["a"])
    shutil.copytree(directory / "c@1", directory / "c@1.bak")
    for name in ("x@y", "backup@2024", ".gone-mine", ".gone-" + "0" * 32, "plain"):
        (directory / name / "shard").mkdir(parents=True)
        (directory / name / "shard" / "file").write_text("theirs")
    (directory / "c@9").write_text("a file")
    (directory / "c@8").symlink_to(directory / "c@1")
    before = listed(directory, "**/*")
    async with opened(kind, directory) as subject:
        assert await subject.generations() == ("c@1",)
        with pytest.raises(Conflict, match="is in the way"):
            await subject.begin("backup@2024")
        await subject.drop("c@1")
    assert [path for path in before if not path.startswith("c@1/") and path != "c@1"] == listed(directory, "**/*")
    assert not (directory / "c@1").exists()


async def test_a_foreign_file_or_link_with_the_name_is_a_conflict_and_stays(kind: str, directory: Path) -> None:
    (directory / "empty").mkdir(parents=True)
    (directory / "c@1").write_text("somebody's")
    (directory / "c@2").symlink_to(directory / "empty")
    (directory / "c@3").symlink_to(directory / "nowhere")
    os.mkfifo(directory / "c@4")
    async with opened(kind, directory) as subject:
        for number in range(1, 5):
            with pytest.raises(Conflict, match="is in the way"):
                await subject.begin(f"c@{number}")
        await subject.begin("c@5")
    assert (directory / "c@1").read_text() == "somebody's"
    assert list((directory / "empty").iterdir()) == []


async def test_leftovers_of_interrupted_changes_are_removed(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
    half_made, half_gone = directory / "c@2", directory / (".gone-" + "0" * 32)
    (half_made / "shard").mkdir(parents=True)
    (half_made / ".unfinished").touch()
    (half_gone / "shard").mkdir(parents=True)
    (half_gone / RECORD).touch()
    (directory / "c@1" / "shard-7").mkdir()
    async with opened(kind, directory) as subject:
        assert await subject.generations() == ("c@1",)
        assert not half_made.exists()
        assert not half_gone.exists()
        assert not (directory / "c@1" / "shard-7").exists()


async def test_an_empty_generation_costs_at_most_two_threads(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        before = threads()
        for number in range(2, 6):
            await subject.begin(f"c@{number}")
        assert threads() - before <= 8
    async with opened(kind, directory):
        assert threads() - before <= 8


async def test_generations_and_fields_have_quotas_that_say_what_to_remove(kind: str, directory: Path) -> None:
    async with opened(kind, directory, EdgeLimits(most_generations=2)) as subject:
        with pytest.raises(BadInput, match=r"65 .*64"):
            await subject.begin("c@1", CollectionDeclaration(metadata={f"f{n}": "keyword" for n in range(65)}))
        await subject.begin("c@1")
        await subject.begin("c@2")
        await subject.begin("c@2")
        with pytest.raises(Conflict, match="MOST_GENERATIONS"):
            await subject.begin("c@3")
        await subject.drop("c@1")
        await subject.begin("c@3")


async def test_the_directory_of_the_other_service_is_refused_and_left_alone_until_it_is_empty(
    kind: str, directory: Path
) -> None:
    other, own = {"vectors": ("texts", "DENSE"), "texts": ("vectors", "LEXICAL")}[kind]
    async with opened(other, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["one"])
    before = listed(directory, "**/*")
    for _ in range(2):
        with pytest.raises(Conflict, match=f"{directory} .*{own}_DIRECTORY"):
            async with opened(kind, directory):
                pass
    assert listed(directory, "**/*") == before
    async with opened(other, directory) as subject:
        assert await subject.held("c@1", ["one"]) == {"one"}
        await subject.drop("c@1")
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")


async def test_a_record_of_a_later_release_with_this_layout_is_served(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["a", "b"])
    record = json.loads((directory / "c@1" / RECORD).read_text())
    later = {"next": {"release": [1]}}
    record |= later | {"declaration": record["declaration"] | later}
    (directory / "c@1" / RECORD).write_text(json.dumps(record))
    async with opened(kind, directory) as subject:
        assert await subject.held("c@1", ["a", "b"]) == {"a", "b"}
        await subject.begin("c@1")  # the declaration is the same still


async def test_a_record_of_another_layout_is_named_as_such_whatever_else_it_holds(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
    record = json.loads((directory / "c@1" / RECORD).read_text())
    (directory / "c@1" / RECORD).write_text(json.dumps(record | {"layout": 2, "next": 1}))
    async with opened(kind, directory) as subject:
        assert "layout 2" in (await subject.unusable())[0].reason
