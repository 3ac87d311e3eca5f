"""Which folders of an Edge directory are ours: those that carry our record, or our marker while they are laid out.

Nothing else is opened, renamed or removed, whatever its name.
"""

import logging
import re
import shutil
import uuid
from pathlib import Path

from services.chassis.errors import Conflict
from services.contracts.generations import is_generation
from services.storage.edge_files import RECORD, sync

logger = logging.getLogger(__name__)

# In a folder that is being laid out, until its record is written.
MARKER = ".unfinished"
_GONE = re.compile(r"\.gone-[0-9a-f]{32}")


def ours(directory: Path) -> list[Path]:
    """The folders of generations, by name; what a creation or a removal left behind when it broke off is cleared."""
    found: list[Path] = []
    for folder in sorted(directory.iterdir()):
        if folder.is_symlink() or not folder.is_dir():
            continue
        if is_generation(folder.name) and (folder / RECORD).exists():
            found.append(folder)
        elif (is_generation(folder.name) and _is_marked(folder)) or _is_left_over(folder):
            remove(folder)
    return found


def lay_claim(folder: Path) -> None:
    """Makes a new folder that is ours from the start. Raises Conflict when something else has the name."""
    if folder.is_dir() and _is_marked(folder):
        remove(folder)  # of a creation that failed, and could not even be cleared
    # A file, a pipe, a link: even a link to an empty folder, which no start would take for ours again.
    foreign = folder.is_symlink() or (folder.exists() and not folder.is_dir())
    if not foreign:
        folder.mkdir(exist_ok=True)
    if foreign or any(folder.iterdir()):
        raise Conflict(
            f"{folder} is in the way: it does not carry a {RECORD} of this service, which leaves it alone. Move it."
        )
    (folder / MARKER).touch()
    sync(folder.parent)


def settle_claim(folder: Path) -> None:
    """Takes the marker away from a folder that has its record."""
    (folder / MARKER).unlink()
    sync(folder)


def move_aside(folder: Path) -> Path:
    """Renames a folder in one step to a name that the next start clears; where it is now."""
    gone = folder.rename(folder.with_name(f".gone-{uuid.uuid4().hex}"))
    try:
        sync(gone.parent)
    except OSError:  # it has happened: only a power cut could bring the name back
        logger.warning("removal not yet on the disk", extra={"folder": folder.name}, exc_info=True)
    return gone


def remove(folder: Path) -> None:
    """Deletes a folder of ours; what makes it ours last, so that the next start clears what is left. Never raises."""
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
    """A removal that broke off: its last act but one is to take the record away."""
    if not _GONE.fullmatch(folder.name):
        return False
    return (folder / RECORD).exists() or _is_marked(folder) or not any(folder.iterdir())
