"""Makes a session folder: pools the unjudged documents of runs, and reads their texts from the corpus once."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from evaluator.comparison.compared_rankings import ComparedRanking, expect_one_dataset, resolve_rankings
from evaluator.comparison.shared_queries import find_shared_queries
from evaluator.datasets.corpus import corpus_documents
from evaluator.datasets.judgments import qrels_file
from evaluator.datasets.queries import queries_file, read_queries
from evaluator.datasets.reader import corpus_file
from evaluator.datasets.text_files import HashedLines, sha256
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.judging import session_files as files
from evaluator.judging.judge_next import DEPTH
from evaluator.judging.pool import PooledPair, pooled_pairs
from evaluator.metrics.quality import Grades
from evaluator.runs.run_folder import RunFolder, removed_on_error
from evaluator.steps.run_judgments import judgments_of, judgments_with_added
from services.files.disk_writes import write_whole

FOLDER = "judging"  # in the folder of all runs


@dataclass(frozen=True, slots=True)
class NewSession:
    """The folder of a new session. `notes`: what its rankings do not share, or what may mislead."""

    folder: Path
    file: files.SessionFile
    notes: tuple[str, ...]


def create_session(
    words: Sequence[str],
    runs: Path,
    *,
    top: int,
    seed: int,
    dataset: Path | None = None,
    split: str | None = None,
    added: Sequence[Path] = (),
) -> NewSession:
    """Pools the top documents of the pipelines that the words name, for the judged queries that all were asked.

    `added`: qrels files, such as exports of earlier sessions; what they judge is not pooled again. Words, `dataset` and
    `split` are those of `resolve_rankings`. Raises EvaluationError where nothing is to judge.
    """
    with tempfile.TemporaryDirectory(prefix="judging-") as imports:
        rankings = [
            ranking for group in resolve_rankings(words, runs, Path(imports), dataset, split) for ranking in group
        ]
        queries, notes = _shared(rankings, top)
        depth = max(top, DEPTH)
        lists = {
            ranking.label: {query: tuple(ranking.rankings.get(query, ()))[:depth] for query in queries}
            for ranking in rankings
        }
        merged, own = judgments_with_added(rankings[0].folder, added), judgments_of(rankings[0].folder)
        sources = tuple(map(_source, rankings))
        experiment = rankings[0].experiment
    pairs = pooled_pairs(list(lists.values()), merged.grades, queries, top, seed)
    if not pairs:
        raise EvaluationError(f"every document among the first {top} is judged; nothing is left to judge")
    texts, documents = _texts(experiment, queries, pairs)
    kept = [pair for pair in pairs if pair.document in documents]
    known = {query: dict(merged.grades.get(query, {})) for query in queries}
    file = files.SessionFile(
        created_utc=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        dataset=str(experiment.directory.resolve()),
        split=experiment.split,
        qrels_sha256=sha256(qrels_file(experiment.directory, experiment.split)),
        added_judgments=merged.origin.added,
        top=top,
        seed=seed,
        sources=sources,
        queries=tuple(queries),
        pairs=len(kept),
        not_in_corpus=len(pairs) - len(kept),
        # Grades that judges happened to give set no scale where the collection has none of its own.
        known_grades=_grades(merged.grades) if any(grade > 0 for grade in _grades(own)) else (),
    )
    made = _new_folder(runs, experiment.directory.resolve().name)
    with removed_on_error(made):
        (made / files.JUDGES).mkdir()
        files.write_lines(
            made / files.POOL, [files.PooledLine(query=pair.query, document=pair.document) for pair in kept]
        )
        files.write_lines(made / files.QUERY_TEXTS, list(texts.values()))
        files.write_lines(made / files.DOCUMENT_TEXTS, list(documents.values()))
        write_whole(made / files.RANKINGS, files.RANKINGS_BY_PIPELINE.dump_json(lists).decode())
        write_whole(made / files.KNOWN, files.KNOWN_GRADES.dump_json(known).decode())
        # Last and at once: a folder without it is no session, and a part of it would be one of another release.
        write_whole(made / files.SESSION, file.model_dump_json(indent=2) + "\n")
    return NewSession(made, file, notes)


def _grades(judged: Grades) -> tuple[int, ...]:
    return tuple(sorted({grade for of_query in judged.values() for grade in of_query.values()}))


def _source(ranking: ComparedRanking) -> files.PoolSource:
    read = ranking.imported
    # `latest` is another run tomorrow.
    named = ranking.run == ranking.folder.name
    return files.PoolSource(
        label=ranking.label,
        run=RunFolder(ranking.folder.path.resolve()).name if named else ranking.run,
        pipeline=ranking.arm,
        run_file_sha256=read.sha256 if read is not None else sha256(ranking.folder.run_file(ranking.arm)),
    )


def _shared(rankings: Sequence[ComparedRanking], top: int) -> tuple[list[str], tuple[str, ...]]:
    """Returns the queries that all were asked, and what they do not share."""
    first, *others = rankings
    queries = list(first.ranked.queries)
    notes: list[str] = []
    for other in others:
        expect_one_dataset(first, other)
        shared = find_shared_queries(first, other)
        both = set(shared.queries)
        queries = [query for query in queries if query in both]
        notes += shared.notes
    if not queries:
        raise EvaluationError("no query was asked of all these pipelines; pool those that share queries")
    for ranking in rankings:
        if ranking.ranked.depth < top:
            raise EvaluationError(f"{ranking.label} was ranked {ranking.ranked.depth} deep; --top is at most that")
    return queries, tuple(dict.fromkeys(notes))


def _texts(
    experiment: Experiment, queries: Sequence[str], pairs: Sequence[PooledPair]
) -> tuple[dict[str, files.QueryText], dict[str, files.DocumentText]]:
    """Reads the texts of the queries and of the pooled documents; documents that the corpus lacks are missing."""
    directory = experiment.directory
    texts = read_queries(queries_file(directory), skip_unsendable=experiment.skip_unsendable).texts
    if unknown := [query for query in queries if query not in texts]:
        raise EvaluationError(f"{directory}: query {unknown[0]!r} is no longer among its queries; rank again")
    wanted = {pair.document for pair in pairs}
    texts_by_id: dict[str, files.DocumentText] = {}
    path = corpus_file(directory)
    for record in corpus_documents(path, HashedLines(path)):
        document = record.document
        if document.id in wanted:
            texts_by_id[document.id] = files.DocumentText(
                id=document.id, title=document.title or "", text=document.text
            )
            if len(texts_by_id) == len(wanted):
                break
    if not texts_by_id:
        raise EvaluationError(f"{path}: none of the {len(wanted)} pooled documents is there")
    return {query: files.QueryText(id=query, text=texts[query]) for query in queries}, texts_by_id


def _new_folder(runs: Path, dataset: str) -> Path:
    """Creates `judging/<utc>-<dataset>` in the folder of all runs."""
    now = datetime.now(UTC)
    path = runs / FOLDER / f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z-{dataset}"
    path.mkdir(parents=True)
    return path
