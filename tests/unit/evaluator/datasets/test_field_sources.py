"""Rows of tables are read as they were written, and none is lost, whatever quotes and line breaks their cells have."""

import csv
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.datasets.field_sources import _tab_rows, table_rows
from evaluator.datasets.placed_documents import ReadingNotes

HEADER = ("id", "title", "text")


def tables(alphabet: str) -> st.SearchStrategy[list[list[str]]]:
    """Draws rows of one, two or three columns; the first cell makes none of them blank."""
    cells = st.text(alphabet, max_size=6)
    first = cells.map(lambda cell: f"x{cell}") | cells.map(lambda cell: f'"x{cell}')
    return st.integers(2, 3).flatmap(
        lambda width: st.lists(st.tuples(first, *[cells] * (width - 1)).map(list), min_size=1, max_size=6)
    )


def read(name: str, content: str) -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content.encode())
        notes = ReadingNotes()
        rows = [list(cells.values()) for _, cells in table_rows(path, notes)]
        notes.expect_nothing_wrong()
        return rows


def as_spreadsheets_write(rows: Sequence[Sequence[str]], separator: str) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=separator).writerows([HEADER[: len(rows[0])], *rows])
    return file.getvalue()


@given(rows=tables('ab "\n'))
def test_a_tsv_file_of_a_spreadsheet_gives_its_cells_back(rows: list[list[str]]) -> None:
    assert read("a.tsv", as_spreadsheets_write(rows, "\t")) == rows


@given(rows=tables('ab ",;\n'), separator=st.sampled_from(",;"))
def test_a_csv_file_of_a_spreadsheet_gives_its_cells_back(rows: list[list[str]], separator: str) -> None:
    assert read("a.csv", f"sep={separator}\n{as_spreadsheets_write(rows, separator)}") == rows


@given(rows=tables('ab "\n'), separator=st.sampled_from(",;\t"))
def test_the_separator_of_a_csv_file_is_found(rows: list[list[str]], separator: str) -> None:
    assert read("a.csv", as_spreadsheets_write(rows, separator)) == rows


@given(rows=tables('ab "'))
def test_every_line_of_a_tsv_file_without_enclosed_cells_is_a_row(rows: list[list[str]]) -> None:
    lines = ["\t".join(cells) for cells in [HEADER[: len(rows[0])], *rows]]
    read_rows = read("a.tsv", "\n".join(lines))
    assert [len(cells) for cells in read_rows] == [len(cells) for cells in rows]
    for given_cells, cells in zip(rows, read_rows, strict=True):
        for written, cell in zip(given_cells, cells, strict=True):
            assert cell in (written, written[1:-1].replace('""', '"'))


@pytest.mark.timeout(20)  # a row that reads all lines behind it would take minutes
@pytest.mark.parametrize("line", ['"\t"c', '""b', '1\t""b', '1\t"b', '"'])
def test_the_time_of_a_tsv_file_is_linear_in_its_lines_whatever_quotes_stay_open(line: str) -> None:
    lines = [line] * 20_000
    rows = [cells for _, cells in _tab_rows(iter(["id\ttitle\ttext", *lines]), 1)]
    assert "".join(cell for cells in rows[1:] for cell in cells).count(line[-1]) >= len(lines) // 2
