"""Writes collections with one relevant document a query, and run files that put it at a chosen rank."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

FILLERS = 30


def write_collection(directory: Path, queries: int = 60, grade: int = 1) -> Path:
    """Writes queries q0 to q<n-1>, whose relevant documents are r0 to r<n-1>; `kind` is short or long, in turn."""
    (directory / "qrels").mkdir(parents=True)
    documents = [
        *({"_id": f"r{n}", "title": f"Answer {n}", "text": f"text {n}"} for n in range(queries)),
        *({"_id": f"f{n}", "title": "", "text": f"filler {n}"} for n in range(FILLERS)),
    ]
    asked = [
        {"_id": f"q{n}", "text": f"question {n}", "metadata": {"kind": "short" if n % 2 else "long", "number": n}}
        for n in range(queries)
    ]
    for name, lines in (("corpus", documents), ("queries", asked)):
        (directory / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = "".join(f"q{n}\tr{n}\t{grade}\n" for n in range(queries))
    (directory / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return directory


def write_rankings(path: Path, ranks: Mapping[int, int | None], depth: int = 20) -> Path:
    """Writes a TREC run file: query q<n> has r<n> at rank `ranks[n]` (None: nowhere) among `depth` documents."""
    lines = []
    for number, rank in ranks.items():
        ranking = [f"f{n}" for n in range(depth)]
        if rank is not None:
            ranking = [*ranking[: rank - 1], f"r{number}", *ranking[rank - 1 : -1]]
        lines += [f"q{number} Q0 {name} {at} {-at} tag\n" for at, name in enumerate(ranking, start=1)]
    path.write_text("".join(lines))
    return path


def ranked_by(rule: Callable[[int], int | None], queries: int = 60) -> dict[int, int | None]:
    """Returns the rank of the relevant document of each query."""
    return {number: rule(number) for number in range(queries)}


GOOD, FAIR, BAD = ranked_by(lambda n: 1 + n % 2), ranked_by(lambda n: 2 + n % 3), ranked_by(lambda n: 4 + n % 5)


def write_three_rankings(folder: Path) -> dict[str, Path]:
    """Writes good.trec, fair.trec and bad.trec; returns them by name."""
    return {
        name: write_rankings(folder / f"{name}.trec", ranks)
        for name, ranks in (("good", GOOD), ("fair", FAIR), ("bad", BAD))
    }
