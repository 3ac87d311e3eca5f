"""Writes and reads CSV (RFC 4180) of which a spreadsheet takes no cell for a formula. Knows no table."""

import csv
import io
import re
from collections.abc import Iterable, Sequence

from evaluator.pages.page_blocks import FIGURE
from evaluator.progress import shown

# What a spreadsheet evaluates (OWASP, CSV injection); full-width signs count as the plain ones. Quotes in front of it
# are ours, or must be distinguished from ours.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")
_EXPONENT = re.compile(r"[+-]?\d+(\.\d+)?e[+-]?\d+")


def csv_text(rows: Iterable[Sequence[str | int | float | None]]) -> str:
    """Renders rows, one a line. None is an empty cell. A text that would be a formula gets `'` in front; no number."""
    file = io.StringIO()
    csv.writer(file).writerows(
        [_harmless(shown(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows
    )
    return file.getvalue()


def _harmless(cell: str) -> str:
    is_formula = _FORMULA.match(cell) and not FIGURE.fullmatch(cell) and not _EXPONENT.fullmatch(cell)
    return f"'{cell}" if is_formula else cell
