"""Merges qrels files over the judgments of a dataset, and counts what each of them added or changed.

Leaves the files of the dataset as they are, and does not read the corpus: whether it holds a judged document is not
checked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.judgments import read_judgments
from evaluator.errors import EvaluationError
from services.contracts.base import Count, Wire

Graded = Mapping[str, Mapping[str, int]]  # query → document → grade


class AddedJudgments(Wire):
    """One file of added judgments. Counts are of the pairs of query and document that the file judges."""

    file: str
    sha256: str
    added: Count  # that had no judgment before
    changed: Count  # that had another grade before
    unchanged: Count
    other_queries: Count  # left out: the dataset judges no document of their query
    negative: Count  # left out: a negative judgment counts as none

    @property
    def sentence(self) -> str:
        """What the file did, for a report."""
        left = f", {self.other_queries} of other queries left out" if self.other_queries else ""
        left += f", {self.negative} negative ones left out" if self.negative else ""
        counts = f"{self.added} judgments added, {self.changed} changed, {self.unchanged} the same"
        return f"judged also by {self.file} (sha256 {self.sha256[:12]}): {counts}{left}"


@dataclass(frozen=True, slots=True)
class MergedJudgments:
    """The judgments after the merge, and what each file did, in the order of the files."""

    grades: Graded
    files: tuple[AddedJudgments, ...]


def merged_judgments(grades: Graded, files: Sequence[Path]) -> MergedJudgments:
    """Merges files over `grades`, in their order: a later grade of a pair replaces an earlier one.

    Files are qrels of any form that `read_judgments` reads. Only queries of `grades` are merged, so that the queries of
    a run stay the same. Raises EvaluationError for a file named twice, for one that cannot be read, and for one that
    judges none of the queries.
    """
    merged = {query: dict(judged) for query, judged in grades.items()}
    found: list[AddedJudgments] = []
    for path in files:
        one = _merge(merged, path)
        if any(one.sha256 == other.sha256 for other in found):
            raise EvaluationError(f"{path}: the content of a file that was given before; name each file once")
        found.append(one)
    return MergedJudgments(merged, tuple(found))


def _merge(merged: dict[str, dict[str, int]], path: Path) -> AddedJudgments:
    read = read_judgments(path)
    if read.header is not None and read.header.query in merged:
        raise EvaluationError(f"{read.header.place}: the grade {read.header.grade!r} is not a whole number")
    added = changed = unchanged = others = 0
    for query, judged in read.grades.items():
        if query not in merged:
            others += len(judged)
            continue
        for document, grade in judged.items():
            before = merged[query].get(document)
            added += before is None
            changed += before is not None and before != grade
            unchanged += before == grade
            merged[query][document] = grade
    if not added + changed + unchanged:
        raise EvaluationError(f"{path}: judges none of the dataset's judged queries; is it of another dataset?")
    return AddedJudgments(
        file=str(path),
        sha256=read.sha256,
        added=added,
        changed=changed,
        unchanged=unchanged,
        other_queries=others,
        negative=read.negative,
    )
