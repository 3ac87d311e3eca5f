"""Describes the public test collections of the catalogue, and finds them on this machine. Downloads nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, FiniteFloat

from evaluator.datasets.queries import queries_file
from evaluator.datasets.reader import corpus_file
from evaluator.errors import DatasetError, EvaluationError, command_line
from evaluator.progress import shown
from services.chassis.settings.strict_yaml import parse_yaml
from services.contracts.base import Count, Wire

CATALOGUE = Path(__file__).with_name("catalogue.yaml")


class PublishedStatistics(Wire):
    """Statistics of a set as its publishers state them."""

    documents: Count
    queries: Count  # of the split, judged
    relevant_a_query: FiniteFloat  # documents with a grade of at least 1


class OfficialArchive(Wire):
    """The official zip of a set, with its content below a folder of the set's name."""

    md5: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    ir_datasets: str  # its key among the downloads of ir_datasets


class CataloguedSet(Wire):
    """A test collection. `part_of` names the set whose archive holds this one too."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9-]+(/[a-z0-9-]+)?$")]
    title: str
    split: str
    grades: Literal["binary", "graded"]
    self_retrieval: bool | None = None  # None: not known
    licence: str | None = None
    part_of: str | None = None
    statistics: PublishedStatistics
    archive: OfficialArchive | None = None  # None: not freely downloadable, or part of another one


class _CatalogueFile(Wire):
    directories: tuple[Path, ...]
    instructions: str
    sets: tuple[CataloguedSet, ...]


@dataclass(frozen=True, slots=True)
class LocatedSet:
    """A collection on this machine; `known` when it was asked for by its name in the catalogue."""

    directory: Path
    known: CataloguedSet | None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The sets by name, and the directories that may hold them; fetched sets go into the first one."""

    directories: tuple[Path, ...]
    instructions: str
    sets: Mapping[str, CataloguedSet]

    def named(self, name: str) -> CataloguedSet:
        """Returns a set. Raises EvaluationError that lists the names."""
        if name not in self.sets:
            raise EvaluationError(f"{name}: no set of the catalogue; it has {', '.join(self.sets)}")
        return self.sets[name]

    def expect_known(self, given: str) -> None:
        """Raises EvaluationError for what is neither a directory nor the name of a set."""
        if given not in self.sets and not Path(given).is_dir():
            command = command_line("datasets", "list")
            raise EvaluationError(f"{given}: neither a directory nor a name of the catalogue (`{command}` shows them)")

    def parts(self, name: str) -> tuple[CataloguedSet, ...]:
        """Returns the collections of a set: its parts (the forums of CQADupStack), or the set alone."""
        return tuple(part for part in self.sets.values() if part.part_of == name) or (self.named(name),)

    def directory(self, name: str) -> Path | None:
        """Returns the directory that holds a set in BEIR layout; None: it is not on this machine."""
        return next((place / name for place in self.directories if holds_set(place / name)), None)

    def name_of(self, directory: Path) -> str:
        """Returns the name that a set in this directory has in the catalogue (`cqadupstack/android`), else the last
        part of the path, as pages and charts can print it.
        """
        *_, parent, name = ("", *directory.resolve().parts)
        return f"{parent}/{name}" if f"{parent}/{name}" in self.sets else shown(name)

    def located(self, given: str) -> tuple[LocatedSet, ...]:
        """Returns the collections that a directory or a name of the catalogue means. A directory goes first.

        Raises EvaluationError that states how to fetch a set that is not on this machine.
        """
        self.expect_known(given)
        if given not in self.sets or holds_set(Path(given)):
            return (LocatedSet(Path(given), None),)
        located = []
        for part in self.parts(given):
            directory = self.directory(part.name)
            if directory is None:
                command = command_line("datasets", "fetch", given)
                raise EvaluationError(f"{part.name} is not on this machine; `{command}` fetches it")
            located.append(LocatedSet(directory, part))
        return tuple(located)


def holds_set(directory: Path) -> bool:
    """Returns whether a directory has the files of BEIR layout."""
    try:
        corpus_file(directory)
    except DatasetError:
        return False
    return queries_file(directory).is_file() and (directory / "qrels").is_dir()


@cache
def load_catalogue() -> Catalogue:
    """Reads the catalogue, once per process."""
    file = _CatalogueFile.model_validate(parse_yaml(CATALOGUE.read_text(encoding="utf-8")))
    return Catalogue(file.directories, file.instructions, {known.name: known for known in file.sets})
