"""Compares files on disk with the sha256 that models.yaml or prepared.json declares. Names and sizes prove nothing."""

import hashlib
from pathlib import Path

from services.files.regular_file import open_regular
from services.inference.profiles import FetchedProfile


def file_sha256(path: Path) -> str:
    """Computes the sha256 of a file, as lower-case hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def folder_mismatch(profile: FetchedProfile, folder: Path) -> str | None:
    """Describes the first wrong file of a model's folder, as a clause; None when every file has its sha256."""
    for name, expected in profile.files.items():
        wrong = file_mismatch(folder / name, expected)
        if wrong is not None:
            return wrong
    return None


def file_mismatch(path: Path, expected: str, declared_in: str = "models.yaml") -> str | None:
    """Describes what is wrong with a file, as a clause; None when it has the sha256 `expected`.

    `declared_in` is the file that states the expected sha256.
    """
    try:
        actual = file_sha256(path)
    except FileNotFoundError:
        return f"{path.name} is missing"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    return None if actual == expected else f"{path.name} has the sha256 {actual}, {declared_in} says {expected}"
