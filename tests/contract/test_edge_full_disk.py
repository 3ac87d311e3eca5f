"""Checks behaviour on a full disk, a real file system of 400 MB in a file. On both Edge engines."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.chassis.errors import InsufficientStorage
from tests.support.edge_subjects import numbered, opened

pytestmark = pytest.mark.integration  # takes seconds
ROOT = Path(__file__).resolve().parents[2]
SIZE = 400_000_000
BLOCK = 4_096

# Writes; then the test fills the disk up to 8 MB; it goes on writing and searching, and is killed.
WRITER = """
import asyncio, os, sys
from pathlib import Path
from services.chassis.errors import ProblemError
from services.chassis.errors import InsufficientStorage
from tests.support.edge_subjects import SUBJECTS, numbered
from tests.contract.test_edge_full_disk import fill

async def write(kind, directory, documents):
    subject = SUBJECTS[kind](directory)
    await subject.begin("c@1")
    for first in range(0, documents, 500):
        await subject.put("c@1", numbered(first, first + 500))
    fill(directory.parent, "others", 8_000_000)
    refused = 0
    for first in range(100_000, 150_000, 500):
        try:
            await subject.put("c@1", numbered(first, first + 500))
        except ProblemError as error:
            refused += error.status == 507
    print(refused, await subject.found("c@1"), (await subject.check()).ok, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(write(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
"""


def fill(disk: Path, name: str, but_for: int = 0) -> None:
    """Fills the disk up to a number of free bytes."""
    free = os.statvfs(disk)
    length = free.f_bavail * free.f_frsize - but_for
    with (disk / name).open("wb", buffering=0) as others, contextlib.suppress(OSError):
        for _ in range(0, length, BLOCK):
            others.write(bytes(BLOCK))


async def written(kind: str, disk: Path, documents: int) -> str:
    """Returns the output of the writer before it was killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WRITER, kind, str(disk / "edge"), str(documents)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    assert process.returncode == -9, "it was not ended by anything but itself"
    return said.decode().strip()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("a file system is mounted: needs root and mkfs.ext4")
    image, at = tmp_path / "image", tmp_path / "disk"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(SIZE)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True)
    mounted = subprocess.run(["mount", "-o", "loop", image, at], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a file system is mounted: {mounted.stderr.strip()}")
    yield at
    subprocess.run(["umount", at], check=True)


async def test_a_full_disk_refuses_writes_but_ends_no_process_and_allows_a_start(kind: str, disk: Path) -> None:
    assert await written(kind, disk, 5_000) == "100 10 True"
    fill(disk, "the rest")
    async with opened(kind, disk / "edge") as subject:
        assert await subject.unusable() == ()
        assert await subject.found("c@1") == 10
        assert len(await subject.held("c@1", numbered(0, 1_000))) == 1_000
        assert "writes are refused" in (await subject.check()).detail
        fill(disk, "the reserve")
        assert await subject.found("c@1") == 10
    (disk / "others").unlink()
    async with opened(kind, disk / "edge") as subject:
        await subject.put("c@1", ["late"])
        assert await subject.held("c@1", ["late"]) == {"late"}


async def test_a_generation_that_a_full_disk_keeps_closed_is_reported_and_reopened_later(kind: str, disk: Path) -> None:
    await written(kind, disk, 5_000)
    (disk / "edge" / ".reserve").unlink()
    fill(disk, "the rest")
    async with opened(kind, disk / "edge") as subject:
        assert [one.generation for one in await subject.unusable()] == ["c@1"]
        with pytest.raises(InsufficientStorage):
            await subject.found("c@1")
        (disk / "others").unlink()
        for _ in range(200):
            if not await subject.unusable():  # a gateway asks for it every second
                break
            await asyncio.sleep(0.1)
        assert await subject.generations() == ("c@1",)
        assert len(await subject.held("c@1", numbered(0, 1_000))) == 1_000
        await subject.put("c@1", ["late"])
        await subject.drop("c@1")
