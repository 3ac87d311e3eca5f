"""Unpacks a set of the catalogue from its official zip, which the user provides or ir_datasets fetches.

Verifies the md5 and holds a lock. The set's directory appears whole or not at all.
"""

import hashlib
import logging
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from evaluator.datasets.catalogue import Catalogue, CataloguedSet, OfficialArchive, holds_set
from evaluator.datasets.corpus import CORPUS
from evaluator.datasets.queries import QUERIES
from evaluator.errors import DatasetError, EvaluationError
from evaluator.progress import say
from services.files.regular_file import locked


def fetch(catalogue: Catalogue, name: str) -> tuple[Path, ...]:
    """Returns the directories of a set (one for each part), fetched if need be.

    A part comes with all others of its archive. Raises EvaluationError that states what to put where.
    """
    requested = catalogue.named(name)
    if present := _directories(catalogue, name):
        say(f"{name}: present in {', '.join(map(str, present))}")
        return present
    whole = catalogue.named(requested.part_of) if requested.part_of else requested
    if whole.archive is None:
        raise EvaluationError(
            f"{name} is not freely downloadable; make it as {catalogue.instructions} says and put "
            f"{_layout(catalogue, name)} into {catalogue.directories[0] / name}"
        )
    into = catalogue.directories[0]
    try:
        into.mkdir(parents=True, exist_ok=True)
        with locked(into / f".{whole.name}.lock"):
            if not _directories(catalogue, name):  # another process may have fetched it while this one waited
                if (folder := into / whole.name).exists():
                    raise EvaluationError(f"{folder} is in the way: it holds no whole set; remove it and fetch again")
                _install(catalogue, whole, _verified_archive(catalogue, whole.name, whole.archive, into), into)
    except OSError as error:
        raise EvaluationError(f"{into}: {error.strerror or error}") from error
    return _directories(catalogue, name)


def _directories(catalogue: Catalogue, name: str) -> tuple[Path, ...]:
    directories = [catalogue.directory(part.name) for part in catalogue.parts(name)]
    return tuple(path for path in directories if path is not None) if None not in directories else ()


def _verified_archive(catalogue: Catalogue, name: str, archive: OfficialArchive, into: Path) -> Path:
    """Returns the zip that lies in `into`, or the one that ir_datasets keeps below IR_DATASETS_HOME."""
    path = into / f"{name}.zip"
    if not path.is_file():
        # Imported here: it registers every dataset that it knows, which takes a second.
        from ir_datasets.log import easy
        from ir_datasets.util import DownloadConfig, home_path

        # Silences its warnings about each try: the error below reports the same once.
        easy().logger().setLevel(logging.ERROR)
        try:
            path = Path(DownloadConfig.context("beir", home_path() / "beir")[archive.ir_datasets].path())
        except (OSError, RuntimeError) as error:  # what it raises when no address delivers
            raise EvaluationError(
                f"{name} could not be fetched (ir_datasets: {type(error).__name__}): put the official {name}.zip "
                f"(md5 {archive.md5}), or a directory {name} with {_layout(catalogue, name)}, into {into}"
            ) from error
    with path.open("rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if md5 != archive.md5:
        raise EvaluationError(f"{path}: its md5 is not {archive.md5}; replace it, or remove it to download")
    return path


def _install(catalogue: Catalogue, whole: CataloguedSet, archive: Path, into: Path) -> None:
    # The folder has one fixed name, under the lock, so that what a killed process left is removed.
    scratch = into / f".{whole.name}.unpacking"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    parts = [part.name for part in catalogue.parts(whole.name)]
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.namelist():
                if _is_in_layout(member, parts):
                    opened.extract(member, scratch)
        for part in parts:
            if not holds_set(scratch / part):
                raise DatasetError(f"{archive}: not all of {CORPUS}, {QUERIES} and qrels/ is in it for {part}")
        (scratch / whole.name).rename(into / whole.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{whole.name}: unpacked into {into / whole.name}")


def _is_in_layout(name: str, folders: Sequence[str]) -> bool:
    path = PurePosixPath(name)
    if path.suffix == ".tsv":
        return path.parent.name == "qrels" and str(path.parent.parent) in folders
    return path.name in (CORPUS, QUERIES) and str(path.parent) in folders


def _layout(catalogue: Catalogue, name: str) -> str:
    where = " in a directory for each part" if len(catalogue.parts(name)) > 1 else ""
    return f"{CORPUS}, {QUERIES} and qrels/{where}"
