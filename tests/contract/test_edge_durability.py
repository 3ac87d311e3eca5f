"""Acknowledged writes survive failures of the disk and the process, and foreign folders. On both Edge engines."""

import errno
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.chassis.errors import Conflict, InsufficientStorage, UpstreamFailed
from services.storage.edge_directory import EdgeLimits
from services.storage.edge_files import PUBLISHED, RECORD
from tests.support.edge_subjects import Subject, numbered, opened

FULL = EdgeLimits(least_free_mb=10**9)


async def worth_optimising(subject: Subject) -> list[str]:
    """Begins `c@1` so that its next finish makes a copy. Returns what it then holds."""
    await subject.begin("c@1")
    await subject.put("c@1", numbered(0, 1_100))
    await subject.delete("c@1", numbered(0, 300))
    return numbered(300, 1_100)


@asynccontextmanager
async def no_record_can_be_written(directory: Path) -> AsyncIterator[None]:
    """Puts a folder where the next version of the record is written first."""
    obstacle = directory / "c@1" / f".{RECORD}.new"
    obstacle.mkdir()
    yield
    obstacle.rmdir()


@pytest.mark.parametrize("then", ["finish", "restart"])
async def test_a_record_that_cannot_be_written_costs_no_later_write(kind: str, directory: Path, then: str) -> None:
    async with opened(kind, directory) as subject:
        ids = await worth_optimising(subject)
        async with no_record_can_be_written(directory):
            with pytest.raises(UpstreamFailed, match="Is a directory"):
                await subject.finish("c@1")
            late = numbered(5_000, 5_100)
            await subject.put("c@1", late)
        if then == "finish":
            await subject.finish("c@1")
        assert len(await subject.held("c@1", ids + late)) == 900
    async with opened(kind, directory) as subject:
        assert len(await subject.held("c@1", ids + late)) == 900
        await subject.finish("c@1")
        assert len(list((directory / "c@1").glob("shard*"))) == 1


async def test_a_record_that_was_written_and_could_not_be_synced_costs_no_later_write(
    kind: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(folder: Path) -> None:
        raise OSError(errno.EIO, "Input/output error")

    async with opened(kind, directory) as subject:
        ids = await worth_optimising(subject)
        with monkeypatch.context() as disk:
            disk.setattr("services.storage.edge_files.sync_folder", broken)  # the last step of replacing a file
            await subject.finish("c@1")
        late = numbered(5_000, 5_100)
        await subject.put("c@1", late)
        assert len(await subject.held("c@1", ids + late)) == 900
    async with opened(kind, directory) as subject:
        assert len(await subject.held("c@1", ids + late)) == 900


async def test_a_write_that_cannot_unset_finished_is_refused_and_can_be_sent_again(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["a"])
        await subject.finish("c@1")
        async with no_record_can_be_written(directory):
            with pytest.raises(UpstreamFailed):
                await subject.put("c@1", ["b"])
        assert await subject.held("c@1", ["a", "b"]) == {"a"}
        await subject.put("c@1", ["b"])
    async with opened(kind, directory) as subject:
        assert await subject.held("c@1", ["a", "b"]) == {"a", "b"}


def no_move(folder: Path) -> Path:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(folder))


async def test_a_drop_that_fails_changes_nothing_and_can_be_repeated(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["a"])
        await subject.publish("c@1")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("services.storage.edge_files.move_aside", no_move)
            with pytest.raises(UpstreamFailed):
                await subject.drop("c@1")
        assert await subject.held("c@1", ["a"]) == {"a"}
        assert await subject.published() == {"c@1"}
        await subject.drop("c@1")
        assert await subject.generations() == ()
        await subject.begin("c@1")
        assert await subject.held("c@1", ["a"]) == set()
        await subject.put("c@1", ["b"])
    async with opened(kind, directory) as subject:
        assert await subject.held("c@1", ["a", "b"]) == {"b"}


async def test_a_drop_that_cannot_be_unpublished_stays_dropped_and_its_name_unpublished(
    kind: str, directory: Path
) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.publish("c@1")
        obstacle = directory / f".{PUBLISHED}.new"
        obstacle.mkdir()
        await subject.drop("c@1")
        assert await subject.generations() == ()
        with pytest.raises(UpstreamFailed):  # it would be published at the next start
            await subject.begin("c@1")
    obstacle.rmdir()
    async with opened(kind, directory) as subject:
        assert await subject.generations() == ()
        await subject.begin("c@1")
    async with opened(kind, directory) as subject:
        assert (await subject.generations(), await subject.published()) == (("c@1",), set())


async def test_a_creation_that_fails_leaves_nothing_behind(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        (directory / "c@1").write_text("a file")
        with pytest.raises((UpstreamFailed, Conflict)):
            await subject.begin("c@1")
        (directory / "c@1").unlink()
        await subject.begin("c@1")
        assert await subject.generations() == ("c@1",)


async def test_too_little_disk_space_refuses_writes_but_not_searches(kind: str, directory: Path) -> None:
    async with opened(kind, directory) as subject:
        await subject.begin("c@1")
        await subject.put("c@1", ["a", "b"])
    async with opened(kind, directory, FULL) as subject:
        for write in (subject.put("c@1", ["c"]), subject.delete("c@1", ["a"]), subject.begin("d@1")):
            with pytest.raises(InsufficientStorage):
                await write
        assert await subject.found("c@1") == 2
        assert await subject.held("c@1", ["a", "b", "c"]) == {"a", "b"}
        check = await subject.check()
        assert check.ok
        assert "writes are refused" in check.detail
        await subject.drop("c@1")
        assert await subject.generations() == ()


@pytest.mark.alone  # others give back what they have on the same disk
async def test_a_finish_without_disk_space_for_its_copy_is_refused_and_nothing_is_lost(
    kind: str, directory: Path
) -> None:
    async with opened(kind, directory) as subject:
        ids = await worth_optimising(subject)
    disk = shutil.disk_usage(directory)
    just_enough = EdgeLimits(least_free_mb=disk.free // 1_000_000 - 1)
    async with opened(kind, directory, just_enough) as subject:
        with pytest.raises(InsufficientStorage):
            await subject.finish("c@1")
        assert len(await subject.held("c@1", ids)) == 800
