"""Reads and writes TREC run files: `query Q0 document rank score tag`, one line a hit, separated by tabs."""

import gzip
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from evaluator.datasets.ids import plain_id
from evaluator.errors import EvaluationError

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def run_lines(query: str, ranking: Sequence[str], tag: str) -> str:
    """Returns the lines of one query. `ranking` is best first.

    Scores are n - rank: strictly decreasing and exact in float32, so that every tool keeps this order (trec_eval reads
    scores as float32 and orders equal ones by descending id).
    """
    n = len(ranking)
    return "".join(
        f"{query}\tQ0\t{document}\t{rank}\t{n - rank}\t{tag}\n" for rank, document in enumerate(ranking, start=1)
    )


def read_run(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Reads rankings by query, best first. Order and errors are those of `read_scores`."""
    return {query: tuple(scores) for query, scores in read_scores(path).items()}


def read_scores(path: Path) -> Mapping[str, Mapping[str, float]]:
    """Reads query → document → score, documents by descending score, then ascending id; ignores the rank column.

    Lines with five tabs may have ids with spaces; others are split at white space. White space and quotes around an id
    are left out, as in a dataset. A byte order mark is skipped, a file `*.gz` is unpacked. Raises EvaluationError with
    `file:line` for a malformed line and for a document that stands twice under one query, with `file` for a file that
    cannot be read.
    """
    scored: dict[str, dict[str, float]] = {}
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                text = line.rstrip("\r\n")
                if text.strip():
                    _add_hit(scored, text, path, number)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise EvaluationError(f"{path}: not readable as a run file: {reason}") from error
    return {query: dict(sorted(hits.items(), key=lambda hit: (-hit[1], hit[0]))) for query, hits in scored.items()}


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="\n")
    return path.open(encoding="utf-8-sig", newline="\n")


def _add_hit(scored: dict[str, dict[str, float]], text: str, path: Path, number: int) -> None:
    columns = text.split("\t") if text.count("\t") == 5 else text.split()
    if len(columns) != 6:
        raise _no_hit(path, number, f"{len(columns)} columns; expected 6")
    query, document, score = plain_id(columns[0]), plain_id(columns[2]), columns[4]
    # float() alone would also take 1_0, inf, nan and digits of other scripts.
    if not _NUMBER.fullmatch(score.strip()) or not math.isfinite(value := float(score)):
        raise _no_hit(path, number, f"{score!r} is no score")
    if not query or not document:
        raise _no_hit(path, number, "an empty id")
    hits = scored.setdefault(query, {})
    if document in hits:
        raise EvaluationError(f"{path}:{number}: {document} stands twice under query {query}")
    hits[document] = value


# The place is put together for an error alone: for every line it took a fifth of the time that a file takes.
def _no_hit(path: Path, number: int, why: str) -> EvaluationError:
    return EvaluationError(f"{path}:{number}: not a line of a TREC run: {why}")
