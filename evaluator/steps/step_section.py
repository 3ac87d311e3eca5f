"""Defines the section that a step with a file of its own has in a run's report: what is read of it, what is shown."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from evaluator.pages.page_blocks import Block
from evaluator.runs.run_folder import RunFolder, StepFile
from services.files.regular_file import read_regular

Figures = TypeVar("Figures", bound=StepFile)


@dataclass(frozen=True, slots=True)
class StepSection(Generic[Figures]):
    """What a step adds to report.json and its pages.

    `name`: the field of report.json, and the folder with the step's charts. `file`: the step's, of type `model`.
    `blocks`: the section, of those charts that are there by path within the run's folder.
    """

    name: str
    file: str
    model: type[Figures]
    blocks: Callable[[Figures, Collection[str]], Sequence[Block]]

    def read(self, folder: RunFolder) -> Figures | None:
        """Returns what the step has found; None where it was not called. Raises EvaluationError for a stale file."""
        return folder.read(self.file, self.model) if folder.has(self.file) else None

    def charts(self, folder: RunFolder) -> dict[str, str]:
        """Returns the SVG of the charts that the step has drawn, by path within the run's folder."""
        drawn = sorted((folder.path / self.name).glob("*.svg"))
        return {f"{self.name}/{path.name}": read_regular(path).decode() for path in drawn}
