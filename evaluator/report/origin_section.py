"""Shows in a report what its figures rest on: gates, imported files, recall of the index, collection, origin. Pure."""

from collections.abc import Iterator

from evaluator.datasets.reader import DatasetCounts
from evaluator.pages.page_blocks import Block, Bullets, Heading, Prose, Table, filled
from evaluator.report.run_report import Report

COUNTED = ("documents", "queries", "judged_queries", "judgments")
ELSEWHERE = "For hashes, stamps, pipelines and versions, see manifest.json and rank.json beside this file."


def origin_blocks(report: Report) -> Iterator[Block]:
    """Yields the gates, what reading files had to decide, and how the run was made."""
    counts = report.counts
    sample = f"{report.sample} drawn with seed {report.seed}" if report.sample else "all judged ones"
    if report.every_gate:
        yield Heading(f"Gates: {sum(gate.held for gate in report.every_gate)} of {len(report.every_gate)} hold")
        yield Bullets(tuple(gate.sentence for gate in report.every_gate))
    if files := filled(Table("imported", "What reading the run files decided", _imported_rows(report))):
        yield Heading("Imported run files")
        yield Prose("Counts are of the hits of judged queries, within the depth.")
        yield from files
    if report.vector_recall:
        yield Heading("Recall of approximate vector search")
        yield Table("recall", "Recall of approximate vector search", _recall_rows(report))
    yield Heading("The collection")
    yield Prose(
        f"{counts.documents} documents, {counts.queries} queries, {counts.judged_queries} of them judged "
        f"({counts.judgments} judgments); measured: {sample}. Decisions while reading them:"
    )
    yield Table("collection", "Decisions while reading the collection", _collection_rows(counts))
    if models := filled(Table("models", "What each model was trained on", _model_rows(report))):
        yield Heading("What the models were trained on")
        yield Prose(
            "From the model cards. Quality on a set that a model saw in training does not carry over to new texts."
        )
        yield from models
    yield Heading("How the run was made")
    yield Table("origin", "Origin of the figures", origin_rows(report))
    yield Prose(ELSEWHERE)


def origin_rows(report: Report) -> list[list[str]]:
    """Returns how the run was made: generation, engines, command, commit, machine."""
    manifest = report.manifest
    then = " (with the addresses of that time)" if "://" in manifest.command else ""
    return [
        ["what", "value"],
        ["generation", report.generation or "–"],
        *(["engine of " + name, engine] for name, engine in report.engine.items()),
        ["started", manifest.started_utc],
        ["command", f"`{manifest.command}`{then}"],
        ["commit", f"{manifest.git_commit}{' + changes' if manifest.git_dirty else ''}"],
        ["machine", f"{manifest.machine.in_words}, load {manifest.machine.load_1m:.2f}"],
        ["python", manifest.python],
    ]


def _imported_rows(report: Report) -> list[list[str]]:
    rows = [
        ["pipeline", "file", "hits", "missing queries", "cut queries", "unknown queries", "hits not in the corpus",
         "tied hits", "self-retrieved"]
    ]  # fmt: skip
    for name, outcome in report.pipelines.items():
        if file := outcome.imported:
            counts = (
                file.hits,
                file.queries_missing,
                file.queries_cut,
                file.queries_unknown,
                file.hits_not_in_corpus,
                file.hits_tied,
                file.excluded_self,
            )
            rows.append([name, file.file, *map(str, counts)])
    return rows


def _model_rows(report: Report) -> list[list[str]]:
    models = {model: sets for outcome in report.pipelines.values() for model, sets in outcome.trained_on.items()}
    rows = [["model", "pipelines", "trained on", "saw this set"]]
    for model, sets in sorted(models.items()):
        using = {name: outcome for name, outcome in report.pipelines.items() if model in outcome.trained_on}
        seen = any(model in outcome.saw_dataset for outcome in using.values())
        rows.append([model, ", ".join(using), sets, "yes" if seen else "not listed"])
    return rows


def _recall_rows(report: Report) -> list[list[str]]:
    rows = [["backend", "recall", "top", "queries", "vectors", "of them indexed"]]
    for name, recalled in report.vector_recall.items():
        recall = "–" if recalled.recall is None else f"{recalled.recall:z.4f}"
        rows.append([name, recall, *map(str, (recalled.top, recalled.queries, recalled.vectors, recalled.indexed))])
    return rows


def _collection_rows(counts: DatasetCounts) -> list[list[str]]:
    """Returns what reading the dataset had to decide."""
    decided = {name: value for name, value in counts.model_dump().items() if name not in COUNTED}
    words = {
        name: ", ".join(value) or "none" if isinstance(value, tuple) else str(value) for name, value in decided.items()
    }
    return [["what", "how many"], *([name.replace("_", " "), value] for name, value in words.items())]
