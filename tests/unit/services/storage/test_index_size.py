"""The bytes of an index: counted from its files, and only from time to time."""

import os
from pathlib import Path

from services.storage.edge_disk_space import DiskSize, disk_usage


async def test_the_bytes_are_those_of_all_files_without_holes_and_the_write_ahead_log(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "full").write_bytes(b"x" * 100_000)
    (tmp_path / "inner" / "wal").mkdir()
    (tmp_path / "inner" / "wal" / "open-1").write_bytes(b"x" * 500_000)
    with (tmp_path / "hole").open("wb") as file:
        os.truncate(file.fileno(), 50_000_000)
    assert 100_000 <= await DiskSize(tmp_path).bytes() < 200_000


async def test_a_folder_is_counted_again_after_a_change(tmp_path: Path) -> None:
    size = DiskSize(tmp_path)
    assert await size.bytes() == 0
    (tmp_path / "new").write_bytes(b"x" * 10_000)
    assert await size.bytes() == 0
    size.forget()
    assert await size.bytes() >= 10_000


def test_a_folder_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    assert disk_usage(tmp_path / "gone") == 0
