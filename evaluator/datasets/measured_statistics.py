"""Measures the statistics by which the BEIR paper describes a set, and sets them beside the published ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from evaluator.datasets.catalogue import PublishedStatistics
from evaluator.datasets.reader import Dataset
from services.contracts.documents import Document

# The digits of the paper's table 1.
DIGITS = {
    "documents": 0,
    "queries": 0,
    "judged_a_query": 1,
    "relevant_a_query": 1,
    "query_words": 2,
    "document_words": 2,
}


@dataclass(frozen=True, slots=True)
class MeasuredStatistics:
    """Statistics of a collection as it lies on the disk. Words are separated by white space; means are unrounded."""

    documents: int
    queries: int  # judged
    judged_a_query: float
    relevant_a_query: float  # documents with a grade of at least 1
    query_words: float  # of the judged queries
    document_words: float  # title and text


def measure_statistics(dataset: Dataset) -> MeasuredStatistics:
    """Reads the whole corpus once more and counts."""
    words = documents = 0
    for document in dataset.documents():
        documents += 1
        words += document_words(document)
    return statistics_of(dataset.judgments, dataset.queries, documents, words)


def document_words(document: Document) -> int:
    """Counts the words of a document, title and text."""
    return len(document.title.split()) + len(document.text.split())


def statistics_of(
    judged: Mapping[str, Mapping[str, int]], queries: Mapping[str, str], documents: int, words: int
) -> MeasuredStatistics:
    """Returns the statistics. `judged`: grades by query and document; `words`: of all `documents` together."""
    return MeasuredStatistics(
        documents=documents,
        queries=len(judged),
        judged_a_query=fmean(len(grades) for grades in judged.values()),
        relevant_a_query=fmean(sum(grade > 0 for grade in grades.values()) for grades in judged.values()),
        query_words=fmean(len(queries[query].split()) for query in judged),
        document_words=words / documents,
    )


def statistics_rows(measured: MeasuredStatistics, published: PublishedStatistics | None) -> list[list[str]]:
    """Returns the rows of a table, header first: what was measured, what was published, and the difference."""
    rows = [["what", "measured", "published", "difference"]]
    for name, digits in DIGITS.items():
        value = getattr(measured, name)
        stated = getattr(published, name, None)
        rows.append(
            [
                name.replace("_", " "),
                f"{value:.{digits}f}",
                "–" if stated is None else f"{stated:.{digits}f}",
                "–" if stated is None else f"{round(value, digits) - stated:+.{digits}f}",
            ]
        )
    return rows
