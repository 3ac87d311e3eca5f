"""Renders tables as CSV and as LaTeX with the rules of the package booktabs; writes them as files."""

from collections.abc import Iterable
from pathlib import Path

from evaluator.pages.csv_text import csv_text
from evaluator.pages.latex_text import latex_text
from evaluator.pages.page_blocks import Table
from services.files.disk_writes import write_whole


def render_csv(table: Table) -> str:
    """Renders the header and the rows as they are shown, one a line. An unknown value is an empty cell."""
    return csv_text([["" if cell == "–" else cell.strip("`") for cell in row] for row in table.rows])


def render_latex(table: Table) -> str:
    """Renders a `table` environment with caption; it needs `\\usepackage{booktabs}`."""
    columns = "".join("r" if figures else "l" for figures in table.figure_columns)
    header, *rows = (" & ".join(latex_text(cell.strip("`")) for cell in row) + r" \\" for row in table.rows)
    lines = [
        r"\begin{table}",
        rf"\caption{{{latex_text(table.caption)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        header,
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def write_tables(folder: Path, tables: Iterable[Table]) -> None:
    """Writes `<name>.csv` and `<name>.tex` of each table; creates the folder, whose parent is there."""
    folder.mkdir(exist_ok=True)
    for table in tables:
        for suffix, text in (("csv", render_csv(table)), ("tex", render_latex(table))):
            write_whole(folder / f"{table.name}.{suffix}", text, newline="")
