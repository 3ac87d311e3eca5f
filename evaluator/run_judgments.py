"""Reads the judgments that a run is measured by: those of its dataset, and files of added ones merged over them."""

from collections.abc import Sequence
from pathlib import Path

from evaluator.datasets.added_judgments import MergedJudgments, merged_judgments
from evaluator.datasets.judgments import qrels_file, read_judgments
from evaluator.errors import EvaluationError
from evaluator.manifest import Manifest
from evaluator.quality import Grades
from evaluator.run_folder import RunFolder


def judgments_of(folder: RunFolder) -> Grades:
    """Reads the judgments of a run's dataset. Raises EvaluationError when they changed since the queries ran."""
    experiment = folder.experiment
    qrels = qrels_file(experiment.directory, experiment.split)
    judgments = read_judgments(qrels, strict=experiment.strict)
    if judgments.sha256 != folder.read("manifest.json", Manifest).dataset_sha256.get(qrels.name):
        raise EvaluationError(f"{qrels} changed since the queries ran ({folder.name}); rank or import again")
    return judgments.grades


def judgments_with_added(folder: RunFolder, added: Sequence[Path]) -> MergedJudgments:
    """Reads the judgments of a run's dataset and merges `added` over them. Raises as the two that do this."""
    return merged_judgments(judgments_of(folder), added)
