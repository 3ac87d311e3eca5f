"""Unpacks the zip of a test collection: the files of BEIR layout, and nothing that could harm the machine.

Refuses an archive with a path that leads outside, a link, a special file, a name twice, or a size out of proportion
(a zip bomb). Files outside the layout are left in the archive.
"""

import shutil
import stat
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from evaluator.datasets.corpus import CORPUS
from evaluator.datasets.queries import QUERIES
from evaluator.errors import DatasetError

# Deflate reaches 1032. The files of SciFact, NFCorpus, Cranfield and CACM shrink to an eighth at most.
MOST_RATIO = 100
SMALL_BYTES = 1_000_000  # unpacked, harmless at any ratio
MOST_MEMBERS = 10_000
CHUNK_BYTES = 1 << 20


def unpack(archive: Path, folders: Sequence[str], into: Path) -> None:
    """Writes `<folder>/corpus.jsonl`, `queries.jsonl` and `qrels/*.tsv` of each folder below `into`.

    Raises DatasetError for an archive that is broken, hostile or incomplete, and when the disk lacks the space.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _layout_members(archive, opened.infolist(), folders)
            _expect_bounded_size(archive, members, into)
            for member in members:
                _write_member(opened, member, into / member.filename)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DatasetError(f"{archive}: not a zip that can be unpacked: {error}") from error
    except OSError as error:
        raise DatasetError(f"{archive}: cannot be unpacked into {into}: {error.strerror or error}") from error


def _layout_members(archive: Path, members: Sequence[zipfile.ZipInfo], folders: Sequence[str]) -> list[zipfile.ZipInfo]:
    if len(members) > MOST_MEMBERS:
        raise DatasetError(f"{archive}: {len(members)} files; a collection has at most {MOST_MEMBERS}")
    names: set[str] = set()
    chosen = []
    for member in members:
        _expect_harmless(archive, member)
        if member.filename in names:
            raise DatasetError(f"{archive}: {member.filename!r} is in it twice")
        names.add(member.filename)
        if any(_is_in_layout(member.filename, folder) for folder in folders):
            chosen.append(member)
    for folder in folders:
        for name in (CORPUS, QUERIES):
            if f"{folder}/{name}" not in names:
                raise DatasetError(f"{archive}: no {folder}/{name} in it")
        if not any(member.filename.startswith(f"{folder}/qrels/") for member in chosen):
            raise DatasetError(f"{archive}: no {folder}/qrels/*.tsv in it")
    return chosen


def _expect_harmless(archive: Path, member: zipfile.ZipInfo) -> None:
    # The name as the archive holds it: ZipInfo cuts `filename` at a NUL and replaces the separators of Windows.
    name = member.orig_filename
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
        raise DatasetError(f"{archive}: {name!r} would lead outside the folder")
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise DatasetError(f"{archive}: {name!r} is a link or a special file")
    # zipfile bounds the memory of these two only: of bzip2 and LZMA it decompresses what it read as a whole.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DatasetError(f"{archive}: {name!r} is neither stored nor deflated")


def _is_in_layout(name: str, folder: str) -> bool:
    path = PurePosixPath(name)
    if str(path.parent) == folder:
        return path.name in (CORPUS, QUERIES)
    return str(path.parent) == f"{folder}/qrels" and path.suffix == ".tsv"


def _expect_bounded_size(archive: Path, members: Sequence[zipfile.ZipInfo], into: Path) -> None:
    unpacked, packed = sum(member.file_size for member in members), archive.stat().st_size
    if unpacked > max(SMALL_BYTES, MOST_RATIO * packed):
        raise DatasetError(f"{archive}: {packed} bytes would become {unpacked}; at most {MOST_RATIO} times are allowed")
    free = shutil.disk_usage(into).free
    if unpacked > free:
        raise DatasetError(f"{archive}: needs {unpacked} bytes in {into}, where {free} are free")


def _write_member(opened: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    # zipfile reads at most the size that was bounded above, and raises when the content's CRC is another one.
    target.parent.mkdir(parents=True, exist_ok=True)
    with opened.open(member) as source, target.open("xb") as file:
        shutil.copyfileobj(source, file, CHUNK_BYTES)
