"""Makes a run folder from TREC run files of another system and a dataset.

Leaves metrics and report to the steps `quality` and `report`, which read the folder as that of any run.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, collection_name, parse_experiment
from evaluator.runs.answers import AnswerRecord
from evaluator.runs.manifest import build_manifest
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.runs.trec_runs import read_scores, run_lines
from evaluator.steps.rank import ChosenQueries, RankedArm, write_rank_report
from evaluator.steps.vector_recall import RecallReport
from services.contracts.base import NAME, Count, Wire
from services.files.disk_writes import whole_file

IMPORTED = "imported.json"
NOT_IN_FILE = "not_in_file"  # the kind of error of a judged query that a file does not hold
MOST_HITS = 1000  # a query, as of any run
MOST_NAMED = 5  # documents in a message

Scores = Mapping[str, Mapping[str, float]]  # query → document → score, best first


class ImportedFile(Wire):
    """Counts from reading a run file. Those of hits are over the judged queries, within the depth."""

    file: str
    sha256: str
    queries: Count  # in the file, judged or not
    queries_unknown: Count = 0  # of these, not in the collection's file of queries
    queries_missing: Count  # judged, but not in the file: lost
    queries_cut: Count  # with more hits than the depth; the rest is left out
    excluded_self: Count  # hits left out, because document and query are the same
    hits: Count
    hits_not_in_corpus: Count  # they stay in the ranking, unjudged
    hits_tied: Count  # their score is also that of another hit of the query


class ImportReport(Wire):
    """imported.json: the files by arm."""

    arms: dict[str, ImportedFile]


@dataclass(frozen=True, slots=True)
class _ImportedArm:
    name: str
    fingerprint: str
    scores: Scores  # of every query of the file, cut and without self-retrieved documents
    records: tuple[AnswerRecord, ...]
    report: ImportedFile


def named_files(words: Sequence[str]) -> dict[str, Path]:
    """Returns the files by the arm's name: `NAME=FILE`, or a name derived from that of FILE.

    Raises EvaluationError for names that are equal or that no arm can have.
    """
    files: dict[str, Path] = {}
    for word in words:
        name, given, path = word.partition("=")
        if not given or Path(word).exists():
            stem = re.sub(r"(\.(trec|run|txt|res|tsv|gz))+$", "", Path(word).name.lower())
            name, path = re.sub(r"[^a-z0-9_-]+", "-", stem).strip("-_")[:64], word
        if not re.fullmatch(NAME, name):
            raise EvaluationError(f"{word}: {name!r} is no name of a pipeline; give one: my-name={path}")
        if name in files:
            raise EvaluationError(f"{files[name]} and {path}: both are named {name}; give one a name: other={path}")
        files[name] = Path(path)
    return files


def import_runs(
    runs: Path,
    files: Mapping[str, Path],
    dataset: Path,
    *,
    split: str,
    name: str | None,
    depth: int | None,
    metrics: Sequence[str] | None = None,
    skip_unsendable: bool = False,
) -> RunFolder:
    """Reads and checks everything, then writes a run folder up to what `rank` leaves.

    Without `depth`, it is that of the shallowest file: a metric beyond it would compare files of different depth.
    Documents are ordered by score, then ascending id. Raises EvaluationError for files of another collection.
    """
    for path in files.values():
        if path.exists() and not path.is_file():  # a pipe is read once: its hash would be that of nothing
            raise EvaluationError(f"{path}: not a regular file; write what it holds to a file and import that")
    read = {arm: read_scores(path) for arm, path in files.items()}
    collection = read_dataset(dataset, split, skip_unsendable=skip_unsendable)
    for arm, scores in read.items():
        if not scores.keys() & collection.judgments.keys():
            raise EvaluationError(f"{files[arm]}: none of its queries is judged in split {split} of {dataset}")
    within = depth or min(MOST_HITS, *(_depth(scores, collection) for scores in read.values()))
    strangers = _not_in_corpus(read, collection)
    arms = [_imported(arm, files[arm], scores, collection, within, strangers) for arm, scores in read.items()]
    content = {
        "name": name or collection_name(dataset),
        "dataset": str(dataset),
        "split": split,
        "pipelines": tuple(files),
        "depth": within,
        "warmup": 0,
        "recall_queries": 0,
        "skip_unsendable": skip_unsendable,
        **({"metrics": metrics} if metrics else {}),
    }
    experiment = parse_experiment(content, "import")
    return _write(RunFolder.create(runs, experiment), experiment, collection, arms)


def _depth(scores: Scores, dataset: Dataset) -> int:
    """Returns the most hits of a judged query: those of others are in no figure."""
    return max(len(scores[query]) for query in dataset.judgments if query in scores)


def _not_in_corpus(read: Mapping[str, Scores], dataset: Dataset) -> frozenset[str]:
    unknown = {document for scores in read.values() for hits in scores.values() for document in hits}
    every = len(unknown)
    for document in dataset.documents():
        unknown.discard(document.id)
    if len(unknown) == every:
        some = ", ".join(sorted(unknown)[:MOST_NAMED])
        raise EvaluationError(f"no document of the run files is in the corpus of {dataset.directory}: {some}, …")
    return frozenset(unknown)


def _imported(
    name: str, path: Path, read: Scores, dataset: Dataset, depth: int, strangers: frozenset[str]
) -> _ImportedArm:
    digest = sha256(path)
    fingerprint = digest[:12]
    own = {query for query in dataset.self_retrieved if query in read.get(query, {})}
    # Self-retrieved documents leave before the cut, as `exclude_ids` removes them at the gateway.
    others = {
        query: {document: score for document, score in hits.items() if query not in own or document != query}
        for query, hits in read.items()
    }
    scores = {query: dict(list(hits.items())[:depth]) for query, hits in others.items()}
    judged = [scores[query] for query in dataset.judgments if query in scores]
    report = ImportedFile(
        file=str(path),
        sha256=digest,
        queries=len(read),
        queries_unknown=len(read.keys() - dataset.queries.keys()),
        queries_missing=len(dataset.judgments) - len(judged),
        queries_cut=sum(len(others[query]) > depth for query in dataset.judgments if query in others),
        excluded_self=len(own & dataset.judgments.keys()),
        hits=sum(map(len, judged)),
        hits_not_in_corpus=sum(len(strangers & hits.keys()) for hits in judged),
        hits_tied=sum(n for hits in judged for n in Counter(hits.values()).values() if n > 1),
    )
    records = tuple(_record(query, scores.get(query), query in own, fingerprint) for query in dataset.judgments)
    return _ImportedArm(name, fingerprint, scores, records, report)


def _record(query: str, hits: Mapping[str, float] | None, excluded_self: bool, fingerprint: str) -> AnswerRecord:
    if hits is None:
        detail = "not in the run file: the query failed, or had no hits"
        return AnswerRecord(query=query, phase="measured", error=NOT_IN_FILE, detail=detail)
    return AnswerRecord(
        query=query,
        phase="measured",
        hits=len(hits),
        ranking=tuple(hits.items()),
        excluded_self=excluded_self,
        generation="",
        fingerprint=fingerprint,
    )


def _write(folder: RunFolder, experiment: Experiment, dataset: Dataset, arms: Sequence[_ImportedArm]) -> RunFolder:
    # Gateway and generation are empty: nothing records what answered.
    prints = {arm.name: arm.fingerprint for arm in arms}
    folder.write("manifest.json", build_manifest(experiment, dataset, "", "", {}, prints))
    for arm in arms:
        with whole_file(writable(folder.run_file(arm.name)), newline="") as file:
            for query, hits in arm.scores.items():
                file.write(run_lines(query, tuple(hits), arm.name))
        with whole_file(writable(folder.answers(arm.name))) as file:
            for record in arm.records:
                file.write(record.line)
    folder.write("recall.json", RecallReport(backends={}))
    folder.write(IMPORTED, ImportReport(arms={arm.name: arm.report for arm in arms}))
    ranked = [RankedArm(name=arm.name, fingerprint=arm.fingerprint, preset=None, pipeline=None) for arm in arms]
    write_rank_report(folder, ChosenQueries(list(dataset.judgments), []), ranked, experiment.depth, None)
    return folder
