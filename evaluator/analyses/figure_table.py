"""Defines a table of figures, which pages print rounded. Pure."""

from dataclasses import dataclass

from evaluator.pages.markdown_page import aligned

Cell = str | int | float | None  # None: no figure


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table.

    `formats`: of the floats of each column; none: a column of texts. `place`: its number in the paper.
    `why_missing`: sentences, one for each reason of a cell without a figure.
    """

    name: str  # of its figures' files
    title: str
    header: tuple[str, ...]
    formats: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    place: str = ""
    why_missing: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title with the number in the paper."""
        return f"{self.place}: {self.title}" if self.place else self.title

    def markdown(self) -> str:
        """Renders rounded figures; a missing one is a dash."""
        rows = [[_rounded(cell, form) for cell, form in zip(row, self.formats, strict=True)] for row in self.rows]
        return aligned([self.header, *rows])


def _rounded(cell: Cell, form: str) -> str:
    match cell:
        case None:
            return "–"
        case float():
            return format(cell, form)
        case _:
            return str(cell)
