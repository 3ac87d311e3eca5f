"""Whether the files on disk are the ones that models.yaml names: by sha256, never by name or size."""

import hashlib
from pathlib import Path

from services.inference.profiles import CrossEncoderProfile, EncoderProfile


def file_sha256(path: Path) -> str:
    """The sha256 of a file, as lower-case hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def difference(profile: EncoderProfile | CrossEncoderProfile, folder: Path) -> str | None:
    """What is wrong with a model's folder, as a clause; None when every file is there with its sha256."""
    for name, expected in profile.files.items():
        wrong = mismatch(folder / name, expected)
        if wrong is not None:
            return wrong
    return None


def mismatch(path: Path, expected: str, said_by: str = "models.yaml") -> str | None:
    """What is wrong with one file, as a clause; None when it has the expected sha256, which `said_by` names."""
    try:
        actual = file_sha256(path)
    except FileNotFoundError:
        return f"{path.name} is missing"
    except OSError as error:
        return f"{path.name} cannot be read: {error.strerror}"
    return None if actual == expected else f"{path.name} has the sha256 {actual}, {said_by} says {expected}"
