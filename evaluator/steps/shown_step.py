"""Defines what pages show of a step that leaves a file of its own: a section of the report, a page, or both."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from evaluator.pages.page_blocks import Block
from evaluator.pages.step_page import StepPage
from evaluator.runs.run_folder import RunFolder, StepFile
from services.files.regular_file import read_regular

Figures = TypeVar("Figures", bound=StepFile)


@dataclass(frozen=True, slots=True)
class ShownStep(Generic[Figures]):
    """A step with the file of type `model` that it leaves in the run's folder.

    `name`: the field of report.json, the folder with the step's charts, the address of its page. `section`: of a
    report, with those charts that are there by path within the run's folder. `page`: the step's own, if it has one;
    `link`: the words of a link to it.
    """

    name: str
    file: str
    model: type[Figures]
    section: Callable[[Figures, Collection[str]], Sequence[Block]] = lambda figures, charts: ()
    page: Callable[[Figures], StepPage] | None = None
    link: str = ""

    def read(self, folder: RunFolder) -> Figures | None:
        """Returns what the step has found; None where it was not called. Raises EvaluationError for a stale file."""
        return folder.read(self.file, self.model) if folder.has(self.file) else None

    def own_page(self, folder: RunFolder) -> StepPage | None:
        """Returns the step's own page; None where there is none. Raises EvaluationError for a stale file."""
        figures = self.read(folder)
        return None if figures is None or self.page is None else self.page(figures)

    def charts(self, folder: RunFolder) -> dict[str, str]:
        """Returns the SVG of the charts that the step has drawn, by path within the run's folder."""
        drawn = sorted((folder.path / self.name).glob("*.svg"))
        return {f"{self.name}/{path.name}": read_regular(path).decode() for path in drawn}
