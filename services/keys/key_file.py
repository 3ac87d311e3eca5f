"""Owns the file of API keys: reads it, and changes it so that readers see the old or the new one whole."""

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from services.files.disk_writes import naming
from services.files.regular_file import read_regular
from services.files.text_encoding import NotUtf8, text_of
from services.keys.key import Key

MOST_BYTES = 64_000_000  # a hundred thousand keys
NEW_KEY = ".venv/bin/python -m gateway keys new --name me --file"  # the command, without the file


class KeyFileError(Exception):
    """The file of keys cannot be used; the message names it and what to do."""


class _Content(BaseModel):
    """The content of the file. `version` is that of its form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    keys: tuple[Key, ...] = ()


def read_keys(file: Path) -> tuple[Key, ...]:
    """Reads all keys of a file, in their order. Raises KeyFileError, FileNotFoundError."""
    try:
        content = text_of(read_regular(file, MOST_BYTES))
    except FileNotFoundError:
        raise
    except NotUtf8 as error:
        raise KeyFileError(f"{file} is not a file of keys: {error}.") from error
    except OSError as error:
        raise KeyFileError(f"{file}: {error.strerror}.") from error
    try:
        keys = _Content.model_validate_json(content).keys
    except ValidationError as error:
        first = error.errors(include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise KeyFileError(f"{file} is not a file of keys: {where}: {first['msg']}.") from error
    if len({key.id for key in keys}) < len(keys):
        raise KeyFileError(f"{file} has two keys with one id; remove one of them.")
    return keys


def change_keys(file: Path, change: Callable[[tuple[Key, ...]], tuple[Key, ...]]) -> None:
    """Changes the keys of a file, which is made if it is missing, for its owner alone. Raises KeyFileError, OSError.

    Owner and rights stay as they are, so that whoever reads it still can. A link is followed: its target is replaced.
    """
    file = file.resolve()
    with _locked(file):
        try:
            keys = read_keys(file)
            before = file.stat()
        except FileNotFoundError:
            keys, before = (), None
        content = _Content(keys=change(keys)).model_dump_json(indent=1, exclude_none=True)
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with naming(file), os.fdopen(handle, "w", encoding="utf-8") as opened:
                if before is not None:
                    _keep_owner(opened.fileno(), before, file)
                os.fchmod(opened.fileno(), 0o600 if before is None else before.st_mode & 0o777)
                opened.write(content + "\n")
                opened.flush()
                os.fsync(opened.fileno())
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _keep_owner(opened: int, before: os.stat_result, file: Path) -> None:
    """Gives an open file the owner and group of the one before. Raises KeyFileError if that is not allowed."""
    now = os.fstat(opened)
    if (now.st_uid, now.st_gid) == (before.st_uid, before.st_gid):
        return
    try:
        os.fchown(opened, before.st_uid, before.st_gid)
    except PermissionError as error:
        raise KeyFileError(
            f"{file} belongs to user {before.st_uid} and group {before.st_gid}: change it as that user, or as root."
        ) from error


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Lets one process at a time change the file: two changes at once would lose one of them.

    Locks its folder: a file for the lock would belong to whoever came first, and others could not open it.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
