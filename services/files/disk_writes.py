"""Writes files whole, and ends a command with one sentence when a file or its output cannot be written.

Needs the standard library alone, and does not know the content of the files.
"""

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:  # of Python 3.12
    from _typeshed import ReadableBuffer

OUTPUT = "standard output"  # in place of a file's name


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Names the file in an OSError that names none: the system reports a full disk at a write, which has no path."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def whole_file(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    """Yields a file that takes the place of `path` at the end of the block. An error leaves the old one and no part.

    A device or a pipe is written, not replaced, and of a link its target. Raises OSError that names `path`.
    """
    if path.exists() and not path.is_file():
        with naming(path), path.open("w", encoding="utf-8", newline=newline) as file:
            yield file
        return
    part = path.with_name(f".{path.name}.{os.getpid()}.part")  # another process may write the same file
    try:
        with naming(path), part.open("w", encoding="utf-8", newline=newline) as file:
            yield file
        part.replace(path.resolve())  # not a link to it
    except BaseException as error:
        if isinstance(error, OSError) and error.filename == str(part):
            error.filename, error.filename2 = str(path), None
        with suppress(OSError):  # its folder may be gone
            part.unlink()
        raise


def write_whole(path: Path, content: str | bytes, newline: str | None = None) -> None:
    """Replaces the content of a file, as `whole_file`."""
    with whole_file(path, newline) as file:
        if isinstance(content, str):
            file.write(content)
        else:
            file.buffer.write(content)


def sync_folder(folder: Path) -> None:
    """Makes renames and new names within a folder outlive a power failure (fsync)."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def end_command(name: str, command: Callable[[], object]) -> NoReturn:
    """Runs a command and ends the process with its exit status, 0 where it returns none.

    An OSError, also of standard output, ends it with status 1 and one sentence; a pipe closed by `head` is no error.
    """
    status: object = 0
    failed: OSError | None = None
    given = sys.stdout
    if isinstance(given, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_NamedOutput(given.fileno(), "w", closefd=False)),
            encoding=given.encoding,
            errors=given.errors,
            line_buffering=given.line_buffering or given.write_through,
        )
    try:
        status = command()
    except SystemExit as ended:
        status = ended.code
    except OSError as error:
        failed = error
    failed = failed or _output_error()
    if failed is not None and not isinstance(failed, BrokenPipeError):
        where = "" if failed.filename is None else f"{failed.filename}: "
        status = f"{name}: {where}{failed.strerror or failed}"
    if isinstance(status, str):
        with suppress(OSError):  # of standard error
            sys.stderr.write(f"{status}\n")
            sys.stderr.flush()
        status = 1
    if failed is not None:  # what is left in the buffer would fail once more when the interpreter ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status if isinstance(status, int) else 0)


class _NamedOutput(io.FileIO):
    """Standard output, whose errors name it, so that they differ from those of files."""

    def write(self, content: "ReadableBuffer", /) -> int:
        with naming(Path(OUTPUT)):
            return super().write(content)


def _output_error() -> OSError | None:
    """Returns why the rest of standard output cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return error
    return None
