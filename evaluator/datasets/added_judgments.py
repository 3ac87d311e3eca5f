"""Merges qrels files over the judgments of a dataset, and counts what each of them added or changed.

Changes no file of the dataset. Reads only ids of the corpus, to count judgments of documents that it lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.ids import read_id
from evaluator.datasets.judgments import read_judgments
from evaluator.datasets.text_files import HashedLines, json_objects
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
    not_in_corpus: Count | None = None  # of `added`: merged, but no pipeline finds their document; None: not looked for

    @property
    def sentence(self) -> str:
        """The sentence of a report on this file."""
        left = f", {self.other_queries} of other queries left out" if self.other_queries else ""
        left += f", {self.negative} negative ones left out" if self.negative else ""
        left += f"; the corpus lacks the documents of {self.not_in_corpus} added ones" if self.not_in_corpus else ""
        counts = f"{self.added} judgments added, {self.changed} changed, {self.unchanged} the same"
        return f"judged also by {self.file} (sha256 {self.sha256[:12]}): {counts}{left}"


@dataclass(frozen=True, slots=True)
class MergedJudgments:
    """The judgments after the merge, and what each file did, in the order of the files."""

    grades: Graded
    files: tuple[AddedJudgments, ...]


def merged_judgments(grades: Graded, files: Sequence[Path], corpus: Path | None = None) -> MergedJudgments:
    """Merges files over `grades`, in their order: a later grade of a pair replaces an earlier one.

    Files are qrels of any form that `read_judgments` reads. Only queries of `grades` are merged, so that the queries of
    a run stay the same. With the file of the corpus, judgments of documents that it lacks are counted. Raises
    EvaluationError for a file named twice, for one that cannot be read, and for one that judges none of the queries.
    """
    merged = {query: dict(judged) for query, judged in grades.items()}
    files_merged: list[AddedJudgments] = []
    added: list[list[str]] = []  # documents of each file, as often as it adds a judgment of them
    for path in files:
        merge, documents = _merge(merged, path)
        if any(merge.sha256 == earlier.sha256 for earlier in files_merged):
            raise EvaluationError(f"{path}: the content of a file that was given before; name each file once")
        files_merged.append(merge)
        added.append(documents)
    if corpus is not None:
        lacking = _lacking(corpus, {name for names in added for name in names})
        files_merged = [
            merge.model_copy(update={"not_in_corpus": sum(name in lacking for name in names)})
            for merge, names in zip(files_merged, added, strict=True)
        ]
    return MergedJudgments(merged, tuple(files_merged))


def _lacking(corpus: Path, documents: set[str]) -> set[str]:
    """Returns the documents that a corpus lacks. Reads no further than to the last of them."""
    if documents:
        for place, value, _ in json_objects(corpus, HashedLines(corpus)):
            documents.discard(read_id(value.get("_id"), place)[0])
            if not documents:
                break
    return documents


def _merge(merged: dict[str, dict[str, int]], path: Path) -> tuple[AddedJudgments, list[str]]:
    read = read_judgments(path)
    changed = unchanged = others = 0
    added: list[str] = []
    for query, judged in read.grades.items():
        if query not in merged:
            others += len(judged)
            continue
        for document, grade in judged.items():
            before = merged[query].get(document)
            if before is None:
                added.append(document)
            changed += before is not None and before != grade
            unchanged += before == grade
            merged[query][document] = grade
    if not len(added) + changed + unchanged:
        raise EvaluationError(f"{path}: judges none of the dataset's judged queries; is it of another dataset?")
    counts = AddedJudgments(
        file=str(path),
        sha256=read.sha256,
        added=len(added),
        changed=changed,
        unchanged=unchanged,
        other_queries=others,
        negative=read.negative,
    )
    return counts, added
