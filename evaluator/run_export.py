"""Writes the rankings and judgments of a run so that trec_eval reads them. Reads the run folder; changes none of it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from evaluator.errors import EvaluationError
from evaluator.rank import RankReport
from evaluator.run_folder import RunFolder
from evaluator.run_judgments import judgments_with_added
from evaluator.trec_runs import read_run, run_lines

QRELS = "judgments.qrels"
# trec_eval and its readers split lines at white space; `%` too, so that unquoting gives the id back.
_UNREADABLE = re.compile(r"[\s%]")


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
    (RFC 3986), which `urllib.parse.unquote` reverses. Scores are n - rank. `added`: qrels files merged over the
    dataset's judgments. Raises EvaluationError when the dataset's judgments changed since the queries ran.
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

    def written(identity: str) -> str:
        return _UNREADABLE.sub(lambda found: quote(found[0], safe=""), identity) if escaped else identity

    directory.mkdir(parents=True, exist_ok=True)
    qrels = directory / QRELS
    qrels.write_text(
        "".join(
            f"{written(query)} 0 {written(document)} {grade}\n"
            for query, documents in judged.items()
            for document, grade in documents.items()
        ),
        encoding="utf-8",
    )
    runs = []
    for arm, ranking in rankings.items():
        runs.append(directory / f"{arm}.run")
        lines = (run_lines(written(query), [written(one) for one in ids], arm) for query, ids in ranking.items())
        runs[-1].write_text("".join(lines).replace("\t", " "), encoding="utf-8")
    return Exported(qrels, tuple(runs), escaped, sum(not documents for documents in judged.values()))


def _has_white_space(listed: Mapping[str, Iterable[str]]) -> bool:
    return any(re.search(r"\s", identity) for query, ids in listed.items() for identity in (query, *ids))
