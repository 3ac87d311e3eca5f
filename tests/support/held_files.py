"""Holds back whoever reads a file, so that work which reads it goes on for as long as a test needs."""

import inspect
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def wait_while_held(event: str, arguments: tuple[object, ...]) -> None:
    """Waits in the audit event of `open` while the file has a mark beside it."""
    if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
        folder, name = os.path.split(os.fspath(arguments[0]))
        while name and os.path.exists(os.path.join(folder, f".{name}.held")):
            time.sleep(0.01)


_marks: set[Path] = set()  # of this process: an audit hook hears of every import and stays for good


def _wait_while_any_is_held(event: str, arguments: tuple[object, ...]) -> None:
    if _marks:
        wait_while_held(event, arguments)


sys.addaudithook(_wait_while_any_is_held)


def settings_that_wait(folder: Path) -> dict[str, str]:
    """Returns the environment in which another process waits for held files, too; `folder` keeps the code for it."""
    code = f"import os, sys, time\n{inspect.getsource(wait_while_held)}\nsys.addaudithook(wait_while_held)\n"
    (folder / "sitecustomize.py").write_text(code, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


@contextmanager
def held_back(path: Path) -> Iterator[None]:
    """Makes whoever opens a file wait until the block ends."""
    mark = path.with_name(f".{path.name}.held")
    mark.touch()
    _marks.add(mark)
    try:
        yield
    finally:
        mark.unlink()
        _marks.discard(mark)
