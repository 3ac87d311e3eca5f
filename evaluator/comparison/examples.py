"""Shows the queries on which a pair differs most: text, documents with title, grade and rank in both."""

from collections.abc import Iterable, Mapping, Sequence

from pydantic import FiniteFloat

from evaluator.comparison.shared_queries import Rankings
from evaluator.datasets.corpus import corpus_documents
from evaluator.datasets.queries import queries_file, read_queries
from evaluator.datasets.reader import corpus_file
from evaluator.datasets.text_files import HashedLines
from evaluator.experiments.experiment import Experiment
from evaluator.metrics.quality import Grades
from services.contracts.base import Count, Wire

MOST_DOCUMENTS = 6
SHOWN = 10
TITLE_CHARACTERS = 80


class RankedDocument(Wire):
    """A document of an example. Ranks begin at 1; null: not in the ranking."""

    id: str
    title: str  # or the beginning of the text; empty where the corpus lacks the document
    grade: int | None  # null: not judged
    first_rank: Count | None
    second_rank: Count | None


class QueryExample(Wire):
    """A query on which two pipelines differ. Relevant documents come first, by grade, then those ranked best."""

    query: str
    text: str
    first: FiniteFloat
    second: FiniteFloat
    difference: FiniteFloat
    documents: tuple[RankedDocument, ...]


class PairExamples(Wire):
    """Queries on which `second` differs from `first` in a metric."""

    first: str
    second: str
    metric: str  # with its depth: MAP@100
    examples: tuple[QueryExample, ...]


def biggest_differences(differences: Mapping[str, float], most: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the queries with the biggest gains and those with the biggest losses, biggest first."""
    ordered = sorted(differences, key=lambda query: -differences[query])
    gains = tuple(query for query in ordered[:most] if differences[query] > 0)
    losses = tuple(query for query in ordered[::-1][:most] if differences[query] < 0)
    return gains, losses


def query_example(
    query: str, values: tuple[float, float], rankings: tuple[Rankings, Rankings], grades: Mapping[str, int]
) -> QueryExample:
    """Returns an example without texts; `with_texts` adds them."""
    first, second = ({name: at for at, name in enumerate(side.get(query, ()), start=1)} for side in rankings)
    shown = {name for ranks in (first, second) for name, rank in ranks.items() if rank <= SHOWN}
    known = shown | {name for name, grade in grades.items() if grade > 0}

    def order(name: str) -> tuple[int, int, str]:
        return -grades.get(name, 0), min(ranks.get(name, 1_000_000) for ranks in (first, second)), name

    return QueryExample(
        query=query,
        text="",
        first=values[0],
        second=values[1],
        difference=values[1] - values[0],
        documents=tuple(
            RankedDocument(
                id=name, title="", grade=grades.get(name), first_rank=first.get(name), second_rank=second.get(name)
            )
            for name in sorted(known, key=order)[:MOST_DOCUMENTS]
        ),
    )


def texts_of(experiment: Experiment, examples: Iterable[QueryExample]) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Reads the texts of the examples' queries and the titles of their documents, the corpus once."""
    wanted = {document.id for example in examples for document in example.documents}
    titles: dict[str, str] = {}
    path = corpus_file(experiment.directory)
    for placed in corpus_documents(path, HashedLines(path)):
        if len(titles) == len(wanted):
            break
        if placed.document.id in wanted:
            text = " ".join((placed.document.title or placed.document.text).split())
            titles[placed.document.id] = text if len(text) <= TITLE_CHARACTERS else text[: TITLE_CHARACTERS - 1] + "…"
    queries = read_queries(queries_file(experiment.directory), skip_unsendable=experiment.skip_unsendable)
    return queries.texts, titles


def with_texts(
    examples: Sequence[QueryExample], queries: Mapping[str, str], titles: Mapping[str, str]
) -> tuple[QueryExample, ...]:
    """Returns the examples with texts and titles."""
    return tuple(
        example.model_copy(
            update={
                "text": queries.get(example.query, ""),
                "documents": tuple(
                    document.model_copy(update={"title": titles.get(document.id, "")}) for document in example.documents
                ),
            }
        )
        for example in examples
    )


def examples_of(
    differences: Mapping[str, float],
    values: tuple[Mapping[str, float], Mapping[str, float]],
    rankings: tuple[Rankings, Rankings],
    judgments: Grades,
    most: int,
) -> tuple[tuple[QueryExample, ...], tuple[QueryExample, ...]]:
    """Returns the biggest gains and losses, without texts."""
    gains, losses = (
        tuple(
            query_example(query, (values[0][query], values[1][query]), rankings, judgments.get(query, {}))
            for query in queries
        )
        for queries in biggest_differences(differences, most)
    )
    return gains, losses
