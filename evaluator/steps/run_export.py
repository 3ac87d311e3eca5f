"""Writes the rankings and judgments of a run so that trec_eval reads them. Reads the run folder; changes none of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.ids import ENCODED, encoded_id
from evaluator.errors import EvaluationError
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.trec_runs import read_run, run_lines
from evaluator.steps.rank import RankReport
from evaluator.steps.run_judgments import judgments_with_added
from services.files.disk_writes import write_whole

QRELS = "judgments.qrels"


@dataclass(frozen=True, slots=True)
class Exported:
    """The files of an export: `qrels` and one run file a pipeline."""

    qrels: Path
    runs: tuple[Path, ...]
    escaped: bool  # every id is percent-encoded, because one has white space
    unjudged: int  # measured queries without a judgment that counts: trec_eval's means leave them out


def export_run(folder: RunFolder, directory: Path, added: Sequence[Path] = ()) -> Exported:
    """Writes the judgments of the measured queries and a run file a pipeline, separated by spaces.

    Ids are written as they are, unless one has white space: then in all files `%` and white space are percent-encoded
    (RFC 3986), and the second column, which tools ignore, marks it for our readers. Scores are n - rank. `added`: qrels
    files merged over the dataset's judgments. Raises EvaluationError when these changed since the queries ran.
    """
    ranked = folder.read("rank.json", RankReport)
    grades = judgments_with_added(folder, added).grades
    if unknown := [query for query in ranked.queries if query not in grades]:
        raise EvaluationError(
            f"{folder.path / 'rank.json'}: query {unknown[0]!r} has no judgments; rank or import again"
        )
    judged = {query: grades[query] for query in ranked.queries}
    rankings = {arm.name: read_run(folder.run_file(arm.name)) for arm in ranked.arms}
    escaped = any(_has_white_space(listed) for listed in (judged, *rankings.values()))

    written, iteration = (encoded_id, ENCODED) if escaped else (str, "0")
    directory.mkdir(parents=True, exist_ok=True)
    qrels = directory / QRELS
    write_whole(
        qrels,
        "".join(
            f"{written(query)} {iteration} {written(document)} {grade}\n"
            for query, documents in judged.items()
            for document, grade in documents.items()
        ),
    )
    runs = []
    for arm, ranking in rankings.items():
        runs.append(directory / f"{arm}.run")
        lines = "".join(run_lines(query, ids, arm, encoded=escaped) for query, ids in ranking.items())
        # Without white space in an id, tabs are the only separators that are to become spaces.
        write_whole(runs[-1], lines if escaped else lines.replace("\t", " "))
    return Exported(qrels, tuple(runs), escaped, sum(not documents for documents in judged.values()))


def _has_white_space(listed: Mapping[str, Iterable[str]]) -> bool:
    return any(re.search(r"\s", identity) for query, ids in listed.items() for identity in (query, *ids))
