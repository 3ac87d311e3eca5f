"""Creates, finds and removes the folders of generations: those with a record, or with a marker while being created.

Never opens, renames or removes any other folder.
"""

import logging
import re
import shutil
import uuid
from pathlib import Path

from services.chassis.errors import Conflict
from services.contracts.generations import is_generation
from services.storage.edge_files import RECORD, sync_folder

logger = logging.getLogger(__name__)

# A file in a folder that is being created, until its record is written.
MARKER = ".unfinished"
_GONE = re.compile(r"\.gone-[0-9a-f]{32}")


def own_folders(directory: Path) -> list[Path]:
    """Returns the folders of generations, by name. Removes leftovers of interrupted creations and removals."""
    found: list[Path] = []
    for folder in sorted(directory.iterdir()):
        if folder.is_symlink() or not folder.is_dir():
            continue
        if is_generation(folder.name) and (folder / RECORD).exists():
            found.append(folder)
        elif (is_generation(folder.name) and _is_marked(folder)) or _is_left_over(folder):
            remove(folder)
    return found


def claim_folder(folder: Path) -> None:
    """Creates a folder with the marker. Raises Conflict if a foreign file or folder has the name."""
    if folder.is_dir() and _is_marked(folder):
        remove(folder)  # left by a failed creation
    # A file, a pipe or a link; also a link to an empty folder, which own_folders would skip at the next start.
    foreign = folder.is_symlink() or (folder.exists() and not folder.is_dir())
    if not foreign:
        folder.mkdir(exist_ok=True)
    if foreign or any(folder.iterdir()):
        raise Conflict(
            f"{folder} is in the way: it does not carry a {RECORD} of this service, which leaves it alone. Move it."
        )
    (folder / MARKER).touch()
    sync_folder(folder.parent)


def confirm_claim(folder: Path) -> None:
    """Removes the marker from a folder that has its record."""
    (folder / MARKER).unlink()
    sync_folder(folder)


def move_aside(folder: Path) -> Path:
    """Renames a folder, atomically, to a name that the next start removes. Returns the new path."""
    gone = folder.rename(folder.with_name(f".gone-{uuid.uuid4().hex}"))
    try:
        sync_folder(gone.parent)
    except OSError:  # the rename succeeded; only a power cut could undo it
        logger.warning("removal not yet on the disk", extra={"folder": folder.name}, exc_info=True)
    return gone


def remove(folder: Path) -> None:
    """Deletes a folder of ours, its record or marker last, so that the next start removes any rest. Never raises."""
    last = MARKER if _is_marked(folder) else RECORD
    try:
        (folder / (RECORD if last == MARKER else MARKER)).unlink(missing_ok=True)
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != last:
                entry.unlink()
        (folder / last).unlink(missing_ok=True)
        folder.rmdir()
    except OSError:
        logger.warning("left behind until the next start", extra={"folder": folder.name}, exc_info=True)


def _is_marked(folder: Path) -> bool:
    return (folder / MARKER).exists()


def _is_left_over(folder: Path) -> bool:
    """Returns whether a folder is the rest of an interrupted removal, which deletes the record next to last."""
    if not _GONE.fullmatch(folder.name):
        return False
    return (folder / RECORD).exists() or _is_marked(folder) or not any(folder.iterdir())
