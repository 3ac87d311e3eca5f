"""Finds folders of runs and of stacks that nothing needs any more, and removes them. Owns the rule of what is old."""

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.account import substitute_directory
from deploy.elasticsearch.data_lock import is_locked
from deploy.local import supervision
from deploy.local.problem import StackProblem
from deploy.local.stacks import CHOSEN, DEMO, exclusive, requested_stack
from evaluator.machine.measured_processes import STACKS, measured_processes
from evaluator.runs.run_folder import LATEST

DAYS, KEEP = 30, 10
_RUN = re.compile(r"\d{8}T\d{6,9}Z-")  # not `judging`: people's grades are made once


@dataclass(frozen=True, slots=True)
class Leftover:
    """What can be removed, as one; the first place is what a person knows, another one its data elsewhere."""

    places: tuple[Path, ...]

    def _files(self) -> list[Path]:
        return [file for place in self.places for file in (place, *place.rglob("*"))]

    @property
    def megabytes(self) -> float:
        """What it takes on disk."""
        return sum(file.lstat().st_blocks for file in self._files()) * 512 / 1e6

    @property
    def days(self) -> float:
        """Since the last change in it."""
        return (time.time() - max(file.lstat().st_mtime for file in self._files())) / 86_400

    def remove(self) -> None:
        """Removes it. Raises StackProblem for the data of a stack that has been started meanwhile."""
        first = self.places[0]
        if first.is_file():
            first.unlink()
        elif _RUN.match(first.name):
            shutil.rmtree(first)
        else:
            with exclusive(first, f"{first} is in use; it was not removed."):
                if _is_in_use(first):
                    raise StackProblem(f"{first} is in use; it was not removed.")
                for place in reversed(self.places):
                    shutil.rmtree(place)


def leftovers(runs: Path, data: Path, environment: Mapping[str, str]) -> Iterator[Leftover]:
    """Yields old runs, records of ended stacks, and data of no stack or of the ended one that STACK names.

    Old: unchanged for DAYS. Of the runs, the newest KEEP and `latest` stay. Raises StackProblem.
    """
    days, keep = _number(environment, "DAYS", DAYS), _number(environment, "KEEP", KEEP)
    folders = sorted(path for path in runs.glob("*Z-*") if _RUN.match(path.name) and not path.is_symlink())
    latest = (runs / LATEST).resolve()
    found = [Leftover((run,)) for run in folders[: -max(keep, 1)] if run.resolve() != latest]
    for record in sorted((runs / STACKS).glob("*.json")):
        host, _, port = record.stem.rpartition("-")
        if measured_processes(runs, f"http://{host}:{port}") is None:
            found.append(Leftover((record,)))
    for directory in sorted((data / DEMO.name, data / "up", *data.glob("up-*"))):
        if directory.is_dir() and not (directory / CHOSEN).exists() and not _is_in_use(directory):
            found.append(_data(directory))
    named = data / requested_stack(environment).directory.name if environment.get("STACK") else None
    yield from (leftover for leftover in found if leftover.days >= days and leftover.places[0] != named)
    if named is not None and not named.is_dir():
        raise StackProblem(f"STACK={environment['STACK']} has no data: there is no {named}.")
    if named is not None and not _is_in_use(named):
        yield _data(named)


def _data(directory: Path) -> Leftover:
    elsewhere = substitute_directory(directory / "elasticsearch")
    return Leftover((directory, elsewhere) if elsewhere.is_dir() else (directory,))


def _is_in_use(directory: Path) -> bool:
    return supervision.pid(directory) is not None or is_locked(directory / "elasticsearch")


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name) or str(default)
    if not value.isdecimal():
        raise StackProblem(f"{name}={value} is no number.")
    return int(value)
