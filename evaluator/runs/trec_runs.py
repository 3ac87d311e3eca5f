"""Reads and writes TREC run files: `query Q0 document rank score tag`, one line a hit, separated by tabs."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.ids import ENCODED, decoded_id, encoded_id, plain_id
from evaluator.datasets.judgments import DOCUMENT_COLUMN, QUERY_COLUMN
from evaluator.datasets.text_files import HashedLines, known_columns, named_columns, separators_hint
from evaluator.errors import EvaluationError

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

_COLUMNS = {"query": QUERY_COLUMN, "document": DOCUMENT_COLUMN, "score": ("score", "sim")}


@dataclass(frozen=True, slots=True)
class _Places:
    """Where a line has what: TREC's places, or those that a header names."""

    query: int = 0
    document: int = 2
    score: int = 4
    width: int = 6
    iteration: int | None = 1  # shows whether ids are encoded; None: a header names the columns


def run_lines(query: str, ranking: Sequence[str], tag: str, *, encoded: bool = False) -> str:
    """Returns the lines of one query. `ranking` is best first.

    Scores are n - rank: strictly decreasing and exact in float32, so that every tool keeps this order (trec_eval reads
    scores as float32 and orders equal ones by descending id). `encoded`: separated by spaces for tools that split at
    white space, with percent-encoded ids, which the second column marks.
    """
    n = len(ranking)
    written, second, tab = (encoded_id, ENCODED, " ") if encoded else (str, "Q0", "\t")
    return "".join(
        tab.join((written(query), second, written(document), str(rank), str(n - rank), tag)) + "\n"
        for rank, document in enumerate(ranking, start=1)
    )


def read_run(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Reads rankings by query, best first. Order and errors are those of `read_scores`."""
    return {query: tuple(scores) for query, scores in read_scores(path).items()}


def read_scores(path: Path) -> Mapping[str, Mapping[str, float]]:
    """Reads query → document → score, documents by descending score, then ascending id; ignores the rank column.

    Lines with five tabs may have ids with spaces; others are split at white space. A first line that names query,
    document and score is a header: it decides which column is what, beside any others. Ids are decoded in lines whose
    second column is `percent-encoded` (`ids.ENCODED`); white space and quotes around them are left out, as in a
    dataset. Raises EvaluationError with `file:line` for a malformed line and for a document that stands twice under one
    query, with `file` for a file that cannot be read.
    """
    scored: dict[str, dict[str, float]] = {}
    places: _Places | None = None
    for number, text in HashedLines(path).texts():
        if not text.strip():
            continue
        if places is None:
            places = _places(text)
            if places.iteration is None:
                continue
        _add_hit(scored, text, places, path, number)
    return {query: dict(sorted(hits.items(), key=lambda hit: (-hit[1], hit[0]))) for query, hits in scored.items()}


def _places(first: str) -> _Places:
    cells = first.split("\t") if "\t" in first else first.split()
    named = named_columns(cells, _COLUMNS)
    return _Places() if named is None else _Places(**named, width=len(cells), iteration=None)


def _add_hit(scored: dict[str, dict[str, float]], text: str, places: _Places, path: Path, number: int) -> None:
    columns = text.split("\t") if text.count("\t") == places.width - 1 else text.split()
    if len(columns) != places.width:
        raise _no_hit(path, number, f"columns: {len(columns)}; expected {places.width}", columns)
    query, document, score = plain_id(columns[places.query]), plain_id(columns[places.document]), columns[places.score]
    # float() alone would also take 1_0, inf, nan and digits of other scripts.
    if not _NUMBER.fullmatch(score.strip()) or not math.isfinite(value := float(score)):
        raise _no_hit(path, number, f"{score!r} is no score", columns)
    if not query or not document:
        raise _no_hit(path, number, "an empty id")
    if places.iteration is not None and columns[places.iteration] == ENCODED:
        query, document = decoded_id(query, f"{path}:{number}"), decoded_id(document, f"{path}:{number}")
    hits = scored.setdefault(query, {})
    if document in hits:
        raise EvaluationError(f"{path}:{number}: {document} stands twice under query {query}")
    hits[document] = value


# The place is put together for an error alone: for every line it took a fifth of the time that a file takes.
def _no_hit(path: Path, number: int, why: str, cells: Sequence[str] = ()) -> EvaluationError:
    header = f"; a header names {known_columns(_COLUMNS)}{separators_hint(cells)}" if number == 1 else ""
    return EvaluationError(f"{path}:{number}: not a line of a TREC run: {why}{header}")
