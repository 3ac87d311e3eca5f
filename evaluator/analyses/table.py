"""Owns a table of figures and its three forms: Markdown, CSV with all digits, LaTeX with booktabs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.pages.csv_text import csv_text
from evaluator.pages.latex_text import latex_text
from evaluator.pages.markdown_table import aligned

Cell = str | int | float | None  # None: no figure


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A table.

    `formats`: of the floats of each column; none: a column of texts. `place`: its number in the paper, which LaTeX does
    not print beside its own. `last`: so many rows at the end are means over the others.
    `best_in_bold`: LaTeX prints the highest figure of each row in bold, all of them where several are printed alike.
    `why_missing`: sentences, one for each reason of a cell without a figure.
    """

    name: str  # of its files
    title: str
    header: tuple[str, ...]
    formats: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    place: str = ""
    last: int = 0
    best_in_bold: bool = False
    why_missing: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The title with the number in the paper."""
        return f"{self.place}: {self.title}" if self.place else self.title

    def markdown(self) -> str:
        """Renders rounded figures; a missing one is a dash."""
        return aligned([self.header, *self._rounded()])

    def csv(self) -> str:
        """Renders unrounded figures; a missing one is empty."""
        return csv_text([self.header, *self.rows])

    def latex(self) -> str:
        """Renders a floating table for `\\usepackage{booktabs}`, with a label `tab:<name>`."""
        columns = "".join("l" if self._is_text(at) else "r" for at in range(len(self.header)))
        rows = [_latex_row(row, self._best(at)) for at, row in enumerate(self._rounded())]
        upto = len(rows) - self.last
        lines = [
            *(f"% {reason}" for reason in self.why_missing),
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(self.title)}}}",
            rf"\label{{tab:{self.name}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            _latex_row(self.header, None),
            r"\midrule",
            *rows[:upto],
            *([r"\midrule", *rows[upto:]] if self.last else []),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def _rounded(self) -> list[list[str]]:
        return [[_rounded(cell, form) for cell, form in zip(row, self.formats, strict=True)] for row in self.rows]

    def _best(self, row: int) -> str | None:
        """Returns the highest figure of a row as it is printed; None: there is nothing to choose from."""
        figures = [
            (cell, format(cell, form))
            for cell, form in zip(self.rows[row], self.formats, strict=True)
            if isinstance(cell, float)
        ]
        return max(figures)[1] if self.best_in_bold and len(figures) > 1 else None

    def _is_text(self, column: int) -> bool:
        return not self.formats[column]


def _rounded(cell: Cell, form: str) -> str:
    match cell:
        case None:
            return "–"
        case float():
            return format(cell, form)
        case _:
            return str(cell)


def _latex_row(cells: Sequence[str], bold: str | None) -> str:
    printed = (latex_text(cell) for cell in cells)
    return " & ".join(rf"\textbf{{{cell}}}" if cell == bold else cell for cell in printed) + r" \\"
