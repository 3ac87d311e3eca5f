"""Reads the judgments that a run is measured by: those of its dataset, and files of added ones merged over them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.added_judgments import AddedJudgments, merged_judgments
from evaluator.datasets.judgments import qrels_file, read_judgments
from evaluator.datasets.reader import corpus_file
from evaluator.errors import EvaluationError, command_line
from evaluator.metrics.quality import Grades
from evaluator.runs.manifest import Manifest, dataset_directory
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.quality_figures import QualityReport
from services.contracts.base import Wire


class JudgmentsOrigin(Wire):
    """The files behind figures: the dataset's judgments, by name in its folder, and those merged over them."""

    file: str
    sha256: str
    added: tuple[AddedJudgments, ...]

    @property
    def of_dataset(self) -> str:
        """The sentence on the dataset's judgments."""
        return f"Judged by {self.file} of the dataset (sha256 {self.sha256[:12]})."

    def sentences(self) -> Iterator[str]:
        """Yields what a report states of them."""
        yield self.of_dataset
        yield from (f"{file.sentence[0].upper()}{file.sentence[1:]}." for file in self.added)


@dataclass(frozen=True, slots=True)
class MeasuredJudgments:
    """Grades by query and document, and where they come from."""

    grades: Grades
    origin: JudgmentsOrigin


def judgments_of(folder: RunFolder) -> Grades:
    """Reads the judgments of a run's dataset. Raises EvaluationError when they changed since the queries ran."""
    return _of_dataset(folder).grades


def judgments_with_added(folder: RunFolder, added: Sequence[Path]) -> MeasuredJudgments:
    """Reads the judgments of a run's dataset and merges `added` over them. Raises as the two that do this.

    Counts added judgments of documents that the corpus lacks.
    """
    own = _of_dataset(folder)
    merged = merged_judgments(own.grades, added, corpus_file(dataset_directory(folder)) if added else None)
    return MeasuredJudgments(merged.grades, own.origin.model_copy(update={"added": merged.files}))


def judgments_as_measured(folder: RunFolder) -> MeasuredJudgments:
    """Reads the judgments that `quality` has measured a run by, added ones included.

    Raises EvaluationError where it has not, and for a file that changed since.
    """
    added = _added_to(folder)
    if not added:
        return _of_dataset(folder)
    own, paths = _of_dataset(folder), [Path(file.file) for file in added]
    missing = [path for path in paths if not path.is_file()]
    merged = None if missing else merged_judgments(own.grades, paths)
    if merged is None or [file.sha256 for file in merged.files] != [file.sha256 for file in added]:
        again = command_line("quality", "--run", str(folder.path), *(f"--judgments={path}" for path in paths))
        raise EvaluationError(
            f"{folder.path}: judgments that quality.json was measured by changed or are gone "
            f"({', '.join(map(str, missing or paths))}); run `{again}` again"
        )
    return MeasuredJudgments(merged.grades, own.origin.model_copy(update={"added": added}))


def judgments_of_all(folders: Sequence[RunFolder], added: Sequence[Path] = ()) -> MeasuredJudgments:
    """Reads the judgments of the dataset of some runs, with `added` merged over them.

    Without `added`, those that the runs are measured by; the dataset's own where `quality` has measured none. Raises
    EvaluationError where runs are measured by different added ones, and as `judgments_as_measured`.
    """
    if added:
        return judgments_with_added(folders[0], added)
    measured = [folder for folder in folders if folder.has("quality.json")]
    if not measured:
        return _of_dataset(folders[0])
    first, *others = measured
    for other in others:
        ours, theirs = _added_to(first), _added_to(other)
        if [file.sha256 for file in ours] != [file.sha256 for file in theirs]:
            raise EvaluationError(
                f"{first.name} is measured by {_in_words(ours)} and {other.name} by {_in_words(theirs)}; measure both "
                "by the same: `quality --run RUN`, with the same --judgments, or with none"
            )
    return judgments_as_measured(first)


def _added_to(folder: RunFolder) -> tuple[AddedJudgments, ...]:
    change = folder.read("quality.json", QualityReport).added_judgments
    return change.files if change is not None else ()


def _in_words(added: Sequence[AddedJudgments]) -> str:
    return f"added judgments ({', '.join(file.file for file in added)})" if added else "no added judgments"


def _of_dataset(folder: RunFolder) -> MeasuredJudgments:
    experiment = folder.experiment
    qrels = qrels_file(dataset_directory(folder), experiment.split)
    judgments = read_judgments(qrels, strict=experiment.strict)
    if judgments.sha256 != folder.read("manifest.json", Manifest).dataset_sha256.get(qrels.name):
        raise EvaluationError(f"{qrels} changed since the queries ran ({folder.name}); rank or import again")
    return MeasuredJudgments(judgments.grades, JudgmentsOrigin(file=qrels.name, sha256=judgments.sha256, added=()))
