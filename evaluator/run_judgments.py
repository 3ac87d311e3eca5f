"""Reads the judgments that a run is measured by: those of its dataset, and files of added ones merged over them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.command_line import command_line
from evaluator.datasets.added_judgments import AddedJudgments, MergedJudgments, merged_judgments
from evaluator.datasets.judgments import qrels_file, read_judgments
from evaluator.errors import EvaluationError
from evaluator.manifest import Manifest
from evaluator.quality import Grades
from evaluator.quality_report import QualityReport
from evaluator.run_folder import RunFolder
from services.contracts.base import Wire


class JudgmentsOrigin(Wire):
    """The files behind figures: the dataset's judgments, by name in its folder, and those merged over them."""

    file: str
    sha256: str
    added: tuple[AddedJudgments, ...]

    def sentences(self) -> Iterator[str]:
        """Yields what a report says of them."""
        yield f"Judged by {self.file} of the dataset (sha256 {self.sha256[:12]})."
        yield from (f"{one.sentence[0].upper()}{one.sentence[1:]}." for one in self.added)


@dataclass(frozen=True, slots=True)
class MeasuredJudgments:
    """Grades by query and document, and where they come from."""

    grades: Grades
    origin: JudgmentsOrigin


def judgments_of(folder: RunFolder) -> Grades:
    """Reads the judgments of a run's dataset. Raises EvaluationError when they changed since the queries ran."""
    return _of_dataset(folder).grades


def judgments_with_added(folder: RunFolder, added: Sequence[Path]) -> MergedJudgments:
    """Reads the judgments of a run's dataset and merges `added` over them. Raises as the two that do this."""
    return merged_judgments(judgments_of(folder), added)


def judgments_as_measured(folder: RunFolder) -> MeasuredJudgments:
    """Reads the judgments that `quality` has measured a run by, added ones included.

    Raises EvaluationError where it has not, and for a file that changed since.
    """
    change = folder.read("quality.json", QualityReport).added_judgments
    own = _of_dataset(folder)
    if change is None:
        return own
    paths = [Path(one.file) for one in change.files]
    missing = [path for path in paths if not path.is_file()]
    merged = None if missing else merged_judgments(own.grades, paths)
    if merged is None or merged.files != change.files:
        again = command_line("quality", "--run", str(folder.path), *(f"--judgments={path}" for path in paths))
        raise EvaluationError(
            f"{folder.path}: judgments that quality.json was measured by changed or are gone "
            f"({', '.join(map(str, missing or paths))}); run `{again}` again"
        )
    return MeasuredJudgments(merged.grades, own.origin.model_copy(update={"added": merged.files}))


def _of_dataset(folder: RunFolder) -> MeasuredJudgments:
    experiment = folder.experiment
    qrels = qrels_file(experiment.directory, experiment.split)
    judgments = read_judgments(qrels, strict=experiment.strict)
    if judgments.sha256 != folder.read("manifest.json", Manifest).dataset_sha256.get(qrels.name):
        raise EvaluationError(f"{qrels} changed since the queries ran ({folder.name}); rank or import again")
    return MeasuredJudgments(judgments.grades, JudgmentsOrigin(file=qrels.name, sha256=judgments.sha256, added=()))
