"""Commands that exchange run files with other systems."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands import options
from evaluator.commands.steps import print_outcome
from evaluator.datasets.ids import ENCODED, encoded_id
from evaluator.errors import EvaluationError
from evaluator.progress import say, show
from evaluator.report.evaluation import quality_step
from evaluator.report.report_step import report_step
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import LATEST, RunFolder
from evaluator.runs.trec_runs import read_run, run_lines
from evaluator.steps.rank import RankReport
from evaluator.steps.run_import import ImportReport, import_runs, named_files
from evaluator.steps.run_judgments import judgments_of_all
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
    files merged over the dataset's judgments; without, those that `quality` merged. Raises EvaluationError when the
    judgments changed since the queries ran.
    """
    ranked = folder.read("rank.json", RankReport)
    grades = judgments_of_all([folder], added).grades
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


def import_(
    dataset: Annotated[
        str, typer.Argument(help="The collection of the run files: a directory or a name from `datasets list`.")
    ],
    files: Annotated[list[str], typer.Argument(help="TREC run files: FILE or NAME=FILE, also compressed (.gz).")],
    split: Annotated[str, typer.Option(help="The judgments: qrels/<split>.tsv.")] = "test",
    name: Annotated[str | None, typer.Option(help="Name of the experiment. Default: the directory's.")] = None,
    depth: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Hits per query. Default: those of the shallowest file.")
    ] = None,
    metrics: options.Metrics = None,
    skip_unsendable: Annotated[bool, options.SKIP_UNSENDABLE] = False,
    runs: options.Runs = options.RUNS,
) -> None:
    """Turns another system's run files into a run, measures it and writes its report. Exit status as of `run`."""
    with options.reporting_errors():
        chosen = options.metric_names(metrics)
        directory = options.collection_directory(dataset)
        folder = import_runs(
            runs,
            named_files(files),
            directory,
            split=split,
            name=name,
            depth=depth,
            metrics=chosen,
            skip_unsendable=skip_unsendable,
        )
        _say_decisions(folder.read("imported.json", ImportReport), folder.experiment.depth)
        if missing := folder.read("manifest.json", Manifest).counts.judged_documents_missing:
            say(f"{directory}: {missing} judged documents are not in the corpus; they stay in the denominators.")
        quality_step(folder)
        print_outcome(folder, report_step(folder))


def export(
    runs: options.Runs = options.RUNS,
    run: options.Run = None,
    to: Annotated[Path | None, typer.Option(help="Folder to write. Default: `export` in the run folder.")] = None,
    judgments: options.AddedFiles = None,
) -> None:
    """Writes rankings and judgments of a run for trec_eval (default: the latest run)."""
    with options.reporting_errors():
        folder = RunFolder.open(run or runs / LATEST)
        done = export_run(folder, to or folder.path / "export", judgments or ())
        for path in done.runs:
            show(shlex.join(["trec_eval", "-c", "-m", "all_trec", str(done.qrels), str(path)]))
        if done.escaped:
            say(
                "An id has white space, so all these files percent-encode `%` and white space in ids. The second "
                "column marks this; our commands decode such files."
            )
        if done.unjudged:
            say(f"{done.unjudged} measured queries have no judgment that counts; trec_eval's means leave them out.")


def _say_decisions(report: ImportReport, depth: int) -> None:
    for name, file in report.arms.items():
        say(
            f"{name}: {file.file}: {file.hits} hits, at most {depth} per query; {file.queries_missing} judged queries "
            f"missing, {file.queries_cut} cut, {file.queries_unknown} queries not in the collection, "
            f"{file.hits_not_in_corpus} hits not in the corpus, {file.hits_tied} tied (by ascending id), "
            f"{file.excluded_self} self-retrieved left out"
        )
