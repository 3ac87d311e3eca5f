"""Adds to documents the queries that a model generates for them: docT5query (Nogueira and Lin 2019)."""

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import continued_file, read_expansions
from evaluator.progress import progress
from services.contracts.base import UNSENDABLE
from services.contracts.expansions import ExpansionModel, Expansions, GeneratedQueries
from services.contracts.words import word_pattern

if TYPE_CHECKING:
    from workshop.doc2query.query_generator import QueryGenerator

_MODEL: TypeAdapter[str] = TypeAdapter(ExpansionModel)
MOST_CHARACTERS = 1_000  # of a query on the wire


@dataclass(frozen=True, slots=True)
class QueryCounts:
    """Queries of a whole file, and the CPU seconds that this call took for each document that it expanded."""

    generated: int
    kept: int
    cpu_s: float | None  # None: the file was complete


def open_generator(folder: Path) -> "QueryGenerator":
    """Opens the model in a folder by what is in it. Raises EvaluationError."""
    files = sorted(folder.glob("*.gguf"))
    try:
        if len(files) == 1:
            from workshop.doc2query.llama_generator import LlamaGenerator

            return LlamaGenerator(files[0])
        if (folder / "encoder_model.onnx").is_file():
            from workshop.doc2query.t5_generator import T5Generator

            return T5Generator(folder)
    except ImportError as error:
        raise EvaluationError(
            f"{error.name} is not installed, which {folder} needs: workshop/doc2query/README.md has the command"
        ) from error
    raise EvaluationError(
        f"{folder}: has neither one *.gguf nor an encoder_model.onnx; `make models MODELS=smollm2-135m-instruct` "
        "brings a model, and --model names its folder"
    )


def stamp_of(generator: "QueryGenerator", name: str, queries: int, seed: int) -> str:
    """Returns `NAME+SETTINGS@SHA256`, by all that changes queries. Raises EvaluationError for an unfit name."""
    settings = hashlib.sha256(f"{generator.settings}\n{queries}\n{seed}".encode()).hexdigest()
    stamp = f"{name}+{settings[:8]}@{generator.weights_sha256[:12]}"
    try:
        return _MODEL.validate_python(stamp)
    except ValidationError as error:
        raise EvaluationError(
            f"{stamp!r}: rename the model's folder to a few letters, digits, dots and hyphens"
        ) from error


def expand_doc2query(
    generator: "QueryGenerator", stamp: str, dataset: Dataset, out: Path, queries: int, seed: int
) -> QueryCounts:
    """Writes the queries of every document, going on where an earlier call stopped. Raises EvaluationError."""
    started = time.process_time()
    with (
        continued_file(out, dataset.documents(), {"doc2query": stamp}, 1) as file,
        progress("Generating queries", dataset.counts.documents, "documents") as advance,
    ):
        advance(file.done)
        for document in islice(dataset.documents(), file.done, None):
            passage = document.passage
            drawn = generator.generate(passage, queries, seed) if passage.strip() else ()
            generated_queries = GeneratedQueries(model=stamp, queries=distinct(drawn, passage))
            file.write([(document.id, Expansions(doc2query=generated_queries))])
            advance(1)
        expanded = dataset.counts.documents - file.done
    cpu_s = (time.process_time() - started) / expanded if expanded else None
    generated = queries * sum(1 for document in dataset.documents() if document.passage.strip())
    kept = sum(len(line.doc2query.queries) for _, _, line in read_expansions(out) if line.doc2query is not None)
    return QueryCounts(generated, kept, cpu_s)


def distinct(queries: Iterable[str], passage: str) -> tuple[str, ...]:
    """Returns the queries without those that are empty, copied from the passage, or of the words of an earlier one."""
    copied = f" {' '.join(_words(passage))} "
    seen: set[frozenset[str]] = {frozenset()}
    kept = []
    for query in queries:
        words = _words(query)
        if frozenset(words) not in seen and f" {' '.join(words)} " not in copied:
            seen.add(frozenset(words))
            kept.append(" ".join(UNSENDABLE.sub("", query).split())[:MOST_CHARACTERS])
    return tuple(kept)


def _words(text: str) -> Sequence[str]:
    folded = text.casefold()
    return word_pattern(folded).findall(folded)
