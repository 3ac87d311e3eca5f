"""Makes a set of the catalogue lie on this machine: from a directory, the official zip, or ir_datasets, in this order.

Owns the order of sources, the md5 of archives, the lock, and the atomic appearance of the set's directory. How bytes
arrive is left to download, what an archive may hold to unpack.
"""

import hashlib
import logging
import shutil
from pathlib import Path

from evaluator.datasets.catalogue import Catalogue, CataloguedSet, OfficialArchive
from evaluator.datasets.corpus import CORPUS
from evaluator.datasets.download import DownloadError, download
from evaluator.datasets.queries import QUERIES
from evaluator.datasets.unpack import unpack
from evaluator.errors import EvaluationError
from evaluator.progress import say
from services.files.regular_file import locked


def fetch(catalogue: Catalogue, name: str) -> tuple[Path, ...]:
    """Returns the directories of a set (one for each part), fetched if need be.

    A part comes with all others of its archive. Raises EvaluationError that states what to put where.
    """
    asked = catalogue.named(name)
    there = _directories(catalogue, name)
    if there:
        say(f"{name}: present in {', '.join(map(str, there))}")
        return there
    whole = catalogue.named(asked.part_of) if asked.part_of else asked
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
                _fetch_archive(catalogue, whole, whole.archive, into)
    except OSError as error:
        raise EvaluationError(f"{into}: {error.strerror or error}") from error
    return _directories(catalogue, name)


def _directories(catalogue: Catalogue, name: str) -> tuple[Path, ...]:
    found = [catalogue.directory(part.name) for part in catalogue.parts(name)]
    return tuple(path for path in found if path is not None) if None not in found else ()


def _fetch_archive(catalogue: Catalogue, whole: CataloguedSet, archive: OfficialArchive, into: Path) -> None:
    folder, given = into / whole.name, into / f"{whole.name}.zip"
    if folder.exists():
        raise EvaluationError(f"{folder} is in the way: it holds no whole set; remove it and fetch again")
    if given.is_file():
        if md5(given) != archive.md5:
            raise EvaluationError(f"{given}: its md5 is not {archive.md5}; replace it, or remove it to download")
        return _install(catalogue, whole, given, into)
    reasons = []
    for source in (_download_official, _copy_of_ir_datasets):
        try:
            delivered = source(catalogue, whole.name, archive, into)
        except DownloadError as error:
            reasons.append(str(error))
            continue
        _install(catalogue, whole, delivered, into)
        if delivered.parent == into:
            delivered.unlink()
        return None
    raise EvaluationError(
        f"{whole.name} could not be fetched ({'; '.join(reasons)}): put the official {whole.name}.zip "
        f"(md5 {archive.md5}), or a directory {whole.name} with {_layout(catalogue, whole.name)}, into {into}"
    )


def _download_official(catalogue: Catalogue, name: str, archive: OfficialArchive, into: Path) -> Path:
    url, part = catalogue.url(name), into / f".{name}.zip.part"
    resumed = part.exists()
    if resumed and md5(part) == archive.md5:
        return part
    download(url, part, expected_bytes=archive.bytes, label=f"Fetching {name}")
    if md5(part) == archive.md5:
        return part
    part.unlink()
    if resumed:  # the earlier part may be of another file
        say(f"{name}: the md5 is not {archive.md5}; fetching it from the beginning")
        return _download_official(catalogue, name, archive, into)
    raise DownloadError(f"{url} has another md5 than {archive.md5}")


def _copy_of_ir_datasets(catalogue: Catalogue, name: str, archive: OfficialArchive, into: Path) -> Path:
    """Returns the zip that ir_datasets keeps below IR_DATASETS_HOME, which it downloads if need be."""
    # Imported here: it registers every dataset that it knows, which takes a second.
    from ir_datasets.log import easy
    from ir_datasets.util import DownloadConfig, home_path

    # Silences its warnings about each try: the error below reports the same once.
    easy().logger().setLevel(logging.ERROR)
    try:
        path = Path(DownloadConfig.context("beir", home_path() / "beir")[archive.ir_datasets].path())
    except (OSError, RuntimeError) as error:  # what it raises when no address delivers
        raise DownloadError(f"ir_datasets: {type(error).__name__}") from error
    if md5(path) != archive.md5:
        raise DownloadError(f"ir_datasets: {path} has another md5 than {archive.md5}")
    return path


def _install(catalogue: Catalogue, whole: CataloguedSet, archive: Path, into: Path) -> None:
    # The folder has one fixed name, under the lock, so that what a killed process left is removed.
    scratch = into / f".{whole.name}.unpacking"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        unpack(archive, [part.name for part in catalogue.parts(whole.name)], scratch)
        (scratch / whole.name).rename(into / whole.name)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    say(f"{whole.name}: unpacked into {into / whole.name}")


def _layout(catalogue: Catalogue, name: str) -> str:
    where = " in a directory for each part" if len(catalogue.parts(name)) > 1 else ""
    return f"{CORPUS}, {QUERIES} and qrels/{where}"


def md5(path: Path) -> str:
    """Returns the md5 of a file's content, as archives are listed by."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
