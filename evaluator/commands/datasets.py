"""Commands over test collections: `datasets list`, `fetch`, `check`; `from` and `synthetic` make new ones."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from evaluator.commands.options import SKIP_UNSENDABLE, reporting_errors
from evaluator.datasets.catalogue import Catalogue, CataloguedSet, load_catalogue
from evaluator.datasets.fetch import fetch as fetch_set
from evaluator.datasets.field_sources import FieldNames
from evaluator.datasets.new_collection import make_collection
from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.errors import WrongOption, command_line
from evaluator.pages.markdown_page import aligned
from evaluator.progress import say, show

datasets = typer.Typer(no_args_is_help=True, help="Lists, fetches and checks test collections.")

SELF_RETRIEVAL = {True: "yes", False: "no", None: "–"}

SetName = Annotated[str, typer.Argument(help="A name from `datasets list`: scifact, cqadupstack, cqadupstack/android.")]
NameOrDirectory = Annotated[
    str, typer.Argument(metavar="NAME|DIR", help="A name from `datasets list`, or a directory.")
]
SkipUnsendable = Annotated[bool, SKIP_UNSENDABLE]
Split = Annotated[
    str | None, typer.Option(envvar="SPLIT", help="The judgments: qrels/<split>.tsv. Default: the published ones.")
]


@datasets.command("list")
def list_sets() -> None:
    """Lists the catalogue of test collections: published statistics, and where each one is."""
    with reporting_errors():
        catalogue = load_catalogue()
        header = ["name", "documents", "queries", "relevant per query", "grades", "self-retrieval", "licence", "where"]
        show(aligned([header, *(_row(catalogue, known) for known in catalogue.sets.values())]))


@datasets.command()
def fetch(name: SetName) -> None:
    """Fetches a collection with ir_datasets, verifies its md5 and unpacks it."""
    with reporting_errors():
        for directory in fetch_set(load_catalogue(), name):
            show(str(directory))


@datasets.command()
def check(
    dataset: NameOrDirectory,
    split: Split = None,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on faults that are otherwise counted.")] = False,
    skip_unsendable: SkipUnsendable = False,
) -> None:
    """Checks a collection, and lists all that was counted, changed or left out while reading it."""
    with reporting_errors():
        for directory, known in _collections(dataset):
            read = read_dataset(directory, _split(split, known), strict=strict, skip_unsendable=skip_unsendable)
            show(f"\n{directory}, split {read.split}\n")
            show(aligned([["what", "count", "which"], *_decisions(read)]))
            if known is not None:
                _print_deviation(read, known)


@datasets.command("from")
def from_(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE…", help="Folders of Markdown or text, files (CSV, TSV, JSON), http://HOST:9200/INDEX."
        ),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="The folder to make, in BEIR layout.")],
    by: Annotated[
        Literal["file", "heading"], typer.Option(help="Make one document per Markdown file, or per heading.")
    ] = "file",
    id_: Annotated[str | None, typer.Option("--id", metavar="FIELD", help="Field or column with the ids.")] = None,
    title: Annotated[str | None, typer.Option(metavar="FIELD", help="Field or column with the titles.")] = None,
    text: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Field or column with the texts; may be repeated.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Field or column to filter by; may be repeated.")
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="CSV with the column query; optional: document (id or title), grade."),
    ] = None,
    questions: Annotated[
        int, typer.Option(metavar="N", min=0, help="Number of sentences of documents to add as known-item queries.")
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of --questions.")] = 20_250_601,
) -> None:
    """Makes a collection from your documents, with questions from a file or from the documents."""
    with reporting_errors():
        if queries is None and not questions:
            raise WrongOption("--queries FILE or --questions N: one is needed, because questions measure a search")
        made = make_collection(
            sources,
            to,
            fields=FieldNames(id_, title, tuple(text or ()), tuple(metadata or ())),
            by_heading=by == "heading",
            question_file=queries,
            proposals=questions,
            seed=seed,
        )
        if made.changes:
            say(aligned([["changed or left out", "count", "which"], *made.changes]))
        if made.known_items < questions:
            say(
                f"{made.known_items} of {questions} known-item queries: no more documents have a sentence of their own."
            )
        if made.known_items:
            say("Known-item queries repeat words of their documents, so they favour lexical search.")
        show(f"{to}: {made.documents} documents, {made.queries} queries, {made.judgments} judgments")
        say(f"Next: make demo DATASET={shlex.quote(str(to))}")
        if not made.judgments:
            pool = command_line("judge", "pool", "latest:bm25", "latest:hybrid")
            say(f"Nothing is judged yet, so every quality figure will be 0. `{pool}` then collects what was found.")


def synthetic(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make, in BEIR layout.")],
    documents: Annotated[int, typer.Option(metavar="N", min=1, help="Number of documents.")],
    queries: Annotated[
        int, typer.Option(metavar="M", min=1, help="Number of queries, each with one relevant document.")
    ] = 100,
    words: Annotated[int, typer.Option(min=1, help="Average words per document.")] = 55,
    seed: Annotated[int, typer.Option(min=0, help="Seed; the same options give the same files.")] = 20_250_601,
) -> None:
    """Writes a collection of made-up words, by Zipf's law: to measure capacity, not quality."""
    from evaluator.datasets.synthetic import write_synthetic  # imports NumPy

    with reporting_errors():
        write_synthetic(directory, documents, queries, words, seed)
        show(f"{directory}: {documents} documents, {queries} queries, {queries} judgments")


def _collections(given: str) -> list[tuple[Path, CataloguedSet | None]]:
    """Returns the directories that a name or a path means, with what the catalogue knows of each."""
    catalogue = load_catalogue()
    return [
        (located.directory, located.known or catalogue.sets.get(located.directory.resolve().name))
        for located in catalogue.located(given)
    ]


def _split(given: str | None, known: CataloguedSet | None) -> str:
    return given or (known.split if known else "test")


def _row(catalogue: Catalogue, known: CataloguedSet) -> list[str]:
    statistics = known.statistics
    whole = catalogue.named(known.part_of) if known.part_of else known
    places = [catalogue.directory(part.name) for part in catalogue.parts(known.name)]
    if None not in places:
        where = ", ".join(str(place.parent) for place in {place.parent: place for place in places if place}.values())
    else:
        where = "to be fetched" if whole.archive else "to be brought"
    return [
        known.name,
        str(statistics.documents),
        str(statistics.queries),
        f"{statistics.relevant_a_query:.1f}",
        known.grades,
        SELF_RETRIEVAL[known.self_retrieval],
        whole.licence or "–",
        where,
    ]


def _decisions(read: Dataset) -> list[list[str]]:
    kinds = [f"{field}: {kind}" for field, kind in read.schema.items()]
    rows = []
    for name, value in {**read.counts.model_dump(), "metadata_fields": kinds}.items():
        named = value if isinstance(value, tuple | list) else ()
        rows.append([name.replace("_", " "), str(value if isinstance(value, int) else len(named)), ", ".join(named)])
    return [*rows, *([f"sha256 of {name}", "–", value] for name, value in read.hashes.items())]


def _print_deviation(read: Dataset, known: CataloguedSet) -> None:
    published, wrong = known.statistics, []
    if read.counts.documents != published.documents:
        wrong.append(f"{published.documents} documents")
    if read.split == known.split and read.counts.judged_queries != published.queries:
        wrong.append(f"{published.queries} judged queries")
    if known.self_retrieval is not None and known.self_retrieval != bool(read.counts.self_retrieved):
        wrong.append("queries among its documents" if known.self_retrieval else "no query among its documents")
    sentence = (
        f"{known.title} as it was published has {' and '.join(wrong)}." if wrong else f"As {known.title} is published."
    )
    show(f"\n{sentence}")
