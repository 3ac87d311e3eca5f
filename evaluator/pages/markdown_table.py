"""Renders rows as a Markdown table that is aligned for a terminal. Knows nothing of what the cells mean."""

from collections.abc import Sequence

from evaluator.progress import shown


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Renders rows, the header first, as a Markdown table: columns of figures to the right, words to the left.

    A figure may end with `?`."""
    lines = [""] * (len(rows) + 1)
    for raw in zip(*rows, strict=True):
        column = [" ".join(shown(cell).splitlines()).replace("|", "\\|") for cell in raw]
        width = max(2, *map(len, column))  # the rule of figures is `-:` at least
        figures = all(cell == "–" or cell.lstrip("+-").rstrip("?").replace(".", "", 1).isdigit() for cell in column[1:])
        rule = "-" * (width - 1) + ":" if figures else "-" * width
        cells = [cell.rjust(width) if figures else cell.ljust(width) for cell in column]
        lines = [f"{line}| {cell} " for line, cell in zip(lines, (cells[0], rule, *cells[1:]), strict=True)]
    return "\n".join(f"{line}|" for line in lines)
