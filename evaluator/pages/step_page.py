"""Shows a step that leaves a file of its own: as a section of the report, as a page, or both."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from evaluator.pages.html_page import Page, render_standalone
from evaluator.pages.markdown_page import render_markdown
from evaluator.pages.page_blocks import Block
from evaluator.runs.run_folder import RunFolder, StepFile, writable
from services.files.disk_writes import write_whole
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
    page: Callable[[Figures], Page] | None = None
    link: str = ""

    def read(self, folder: RunFolder) -> Figures | None:
        """Returns the figures of the step; None where it was not called. Raises EvaluationError for a stale file."""
        return folder.read(self.file, self.model) if folder.has(self.file) else None

    def own_page(self, folder: RunFolder) -> Page | None:
        """Returns the step's own page; None where there is none. Raises EvaluationError for a stale file."""
        figures = self.read(folder)
        return None if figures is None or self.page is None else self.page(figures)


def write_page(folder: RunFolder, name: str, page: Page) -> None:
    """Writes `<name>.md` and `<name>.html`; the charts are left to `write_charts`."""
    folder.write_text(f"{name}.md", render_markdown(page.title, page.blocks))
    folder.write_text(f"{name}.html", render_standalone(page))


def write_charts(folder: RunFolder, name: str, svgs: Mapping[str, str]) -> None:
    """Writes charts by path within the run's folder; those that lay in its folder `name` before are removed."""
    for old in (folder.path / name).glob("*.svg"):
        old.unlink()
    for path, svg in svgs.items():
        write_whole(writable(folder.path / path), svg)


def drawn_charts(folder: RunFolder, *names: str) -> dict[str, str]:
    """Returns the charts that lie in these folders of a run, by path within it."""
    paths = [path for name in names for path in sorted((folder.path / name).glob("*.svg"))]
    return {str(path.relative_to(folder.path)): read_regular(path).decode() for path in paths}
