"""Reads and writes TREC run files: `query Q0 document rank score tag`, one line a hit, separated by tabs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evaluator.errors import EvaluationError


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
    """Reads rankings by query, ordered by descending score, then ascending id; ignores the rank column.

    Lines with tabs may have ids with spaces; lines separated by spaces are read as well.
    Raises EvaluationError with `file:line` for malformed lines and for a document that stands twice under one query.
    """
    scored: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            text = line.rstrip("\r\n")
            if not text.strip():
                continue
            columns = text.split("\t") if text.count("\t") == 5 else text.split()
            try:
                query, _, document, _, score, _ = columns
                value = float(score)
            except ValueError as error:
                raise EvaluationError(f"{path}:{number}: not a line of a TREC run") from error
            hits = scored.setdefault(query, {})
            if document in hits:
                raise EvaluationError(f"{path}:{number}: {document} stands twice under query {query}")
            if value != value:
                raise EvaluationError(f"{path}:{number}: NaN is no score")
            hits[document] = value
    return {query: tuple(sorted(hits, key=lambda name: (-hits[name], name))) for query, hits in scored.items()}
