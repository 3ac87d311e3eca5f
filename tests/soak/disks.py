"""Makes data directories for stacks: ordinary ones, or small disks that a test can fill."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

DISK_MIB = 1_024  # four times what the engines keep free
BALLAST = "ballast"


@contextmanager
def data_directory(small_disks: Sequence[str] = ()) -> Iterator[Path]:
    """Yields a temporary directory; where this process may mount, those in it named here are disks of DISK_MIB."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name, ExitStack() as mounted:
        directory = Path(name)
        for disk in map(directory.joinpath, small_disks):
            disk.mkdir()
            command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(disk)]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                mounted.callback(subprocess.run, ["umount", "--lazy", str(disk)], check=True)
        yield directory


def fill_disk(directory: Path) -> None:
    """Fills a disk completely."""
    with (directory / BALLAST).open("wb") as ballast:
        room = os.statvfs(directory)
        os.posix_fallocate(ballast.fileno(), 0, room.f_bavail * room.f_frsize)


def free_disk(directory: Path) -> None:
    """Frees a filled disk."""
    (directory / BALLAST).unlink()


def is_small_disk(directory: Path) -> bool:
    """Returns whether a directory is a small disk of its own."""
    room = os.statvfs(directory)
    return room.f_blocks * room.f_frsize <= DISK_MIB * 2**20
