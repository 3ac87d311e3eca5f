"""Reads and continues files of expansions: JSON lines, one for each document of a corpus, in its order.

A line: `{"_id": "d1", "deepct": {"model": "NAME@SHA256", "words": "chain|14 oil|9"}}`.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from evaluator.datasets.ids import read_id
from evaluator.datasets.text_files import HashedLines, json_objects
from evaluator.errors import DatasetError, EvaluationError
from services.contracts.documents import Document
from services.contracts.expansions import ExpansionMethod, Expansions

_Line = tuple[str, str, Expansions]  # place, id, expansions


def read_expansions(path: Path) -> Iterator[_Line]:
    """Yields place, id and expansions of each line. Raises DatasetError, also where the model changes."""
    models: Mapping[ExpansionMethod, str] = {}
    for place, value, _ in json_objects(path, HashedLines(path)):
        identity, _ = read_id(value.pop("_id", None), place)
        try:
            expansions = Expansions.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            raise DatasetError(f"{place}: {'.'.join(map(str, first['loc'])) or 'line'}: {first['msg']}") from error
        models = models or expansions.models
        if expansions.models != models:
            raise DatasetError(f"{place}: has {_named(expansions.models)}, and the first line {_named(models)}")
        yield place, identity, expansions


def declared_models(files: Sequence[Path]) -> dict[ExpansionMethod, str]:
    """Returns the model of each expansion, by the first line of each file. Raises DatasetError if two have the same."""
    models: dict[ExpansionMethod, str] = {}
    for path in files:
        _, _, first = next(read_expansions(path), (None, None, None))
        if first is None:
            raise DatasetError(f"{path}: has no line")
        if twice := sorted(models.keys() & first.models.keys()):
            raise DatasetError(f"{path}: {twice[0]} is in another file too; name one of them")
        models |= first.models
    return models


def expanded(documents: Iterable[Document], files: Sequence[Path]) -> Iterator[Document]:
    """Yields the documents with the expansions of the files. Raises DatasetError where a file has another order."""
    lines = [read_expansions(path) for path in files]
    for document in documents:
        parts: dict[str, object] = {}
        for path, read in zip(files, lines, strict=True):
            place, identity, expansions = next(read, (str(path), None, None))
            if expansions is None or identity != document.id:
                read_line = "ends" if expansions is None else repr(identity)
                raise DatasetError(
                    f"{place}: {read_line} where the corpus has {document.id!r}; it needs a line for each document, in "
                    "the order of the corpus"
                )
            parts |= {method: getattr(expansions, method) for method in expansions.models}
        yield document.model_copy(update={"expansions": Expansions.model_validate(parts)})
    for path, read in zip(files, lines, strict=True):
        if (more := next(read, None)) is not None:
            raise DatasetError(f"{more[0]}: the corpus of this collection ended before it; {path} is of another one")


class ContinuedFile:
    """A file of expansions that is being written. `done`: lines that an earlier call has left in it."""

    def __init__(self, file: BinaryIO, done: int) -> None:
        self._file = file
        self.done = done

    def write(self, lines: Iterable[tuple[str, Expansions]]) -> None:
        """Appends lines and hands them to the system."""
        for identity, expansions in lines:
            line = {"_id": identity, **expansions.model_dump()}
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._file.flush()


@contextmanager
def continued_file(
    path: Path, documents: Iterable[Document], models: Mapping[ExpansionMethod, str], batch: int
) -> Iterator[ContinuedFile]:
    """Opens a file where an earlier call stopped: after a whole `batch`, or at its end.

    Raises EvaluationError where it holds expansions of another model or corpus.
    """
    path.touch()
    with path.open("r+b") as file:
        ends = [0]
        while (line := file.readline()).endswith(b"\n"):
            ends.append(ends[-1] + len(line))
        os.truncate(path, ends[-1])  # a line that was being written
        rest = iter(documents)
        for place, identity, expansions in read_expansions(path) if ends[-1] else ():
            document = next(rest, None)
            if document is None or identity != document.id or expansions.models != models:
                wanted = "nothing" if document is None else f"{document.id!r} by {_named(models)}"
                raise EvaluationError(
                    f"{place}: is of {identity!r} by {_named(expansions.models)}, and would be of {wanted}; name "
                    "another file with --out"
                )
        lines = len(ends) - 1
        # Whole batches, so that every document is weighed beside the same others.
        whole = lines if next(rest, None) is None else lines // batch * batch
        os.truncate(path, ends[whole])
        file.seek(ends[whole])
        yield ContinuedFile(file, whole)


def batches_of(documents: Iterator[Document], size: int) -> Iterator[list[Document]]:
    """Yields consecutive documents, `size` at a time."""
    while batch := list(islice(documents, size)):
        yield batch


def _named(models: Mapping[ExpansionMethod, str]) -> str:
    return ", ".join(f"{method} of {model}" for method, model in models.items())
