"""Tables as files for spreadsheets and papers."""

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evaluator.pages.csv_text import csv_text
from evaluator.pages.inline_markup import cell_html
from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.markdown_table import aligned
from evaluator.pages.page_blocks import Bullets, FoldedBlocks, Heading, Sentence, Table, tables_of
from evaluator.pages.table_files import render_csv, render_latex
from evaluator.printable import shown

TABLE = Table(
    "figures",
    "100 % of it",
    [["pipeline", "p50 ms", "share"], ["a_b & c", "12.5?", "–"], ['say "x", twice', "1,234.0", "0.1 to 0.2"]],
)


def test_a_csv_is_read_back_as_the_rows_with_unknown_values_empty() -> None:
    rows = list(csv.reader(io.StringIO(render_csv(TABLE))))
    assert rows == [
        ["pipeline", "p50 ms", "share"],
        ["a_b & c", "12.5?", ""],
        ['say "x", twice', "1,234.0", "0.1 to 0.2"],
    ]


def test_latex_has_the_rules_of_booktabs_and_escapes_what_it_would_read_as_commands() -> None:
    text = render_latex(TABLE)
    assert r"\caption{100 \% of it}" in text
    assert r"\begin{tabular}{lrr}" in text
    assert [line for line in text.splitlines() if line.endswith("rule")] == [r"\toprule", r"\midrule", r"\bottomrule"]
    assert r"a\_b \& c & 12.5? & -- \\" in text


def test_a_column_holds_figures_words_or_labels() -> None:
    rows = [["name", "mean", "interval", "reason"], ["bm25", "-0.1", "+0.1 to +0.2", "a long reason " * 4]]
    assert Table("t", "", rows).column_looks == ("label", "figure", "figure", "words")


def test_folded_tables_are_found_too() -> None:
    assert list(tables_of([Heading("h"), FoldedBlocks("more", (TABLE, Bullets(("x",))))])) == [TABLE]


FORMULAS = "=+-@\t\r\n＝＋－＠"


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8")).map(shown), min_size=1), min_size=1))
@example([["=1+1", "-x", "'=1", "''@y", "-0.12", "'-0.12", "", "'"], ["\rx", "\tx", "+"]])
def test_cells_are_as_they_were_but_for_a_quote_and_none_begins_as_a_formula(rows: list[list[str]]) -> None:
    text = csv_text(rows)
    read = list(csv.reader(io.StringIO(text, newline="")))
    raw, given = [cell for row in read for cell in row], [cell for row in rows for cell in row]
    assert [len(row) for row in read] == [len(row) for row in rows]
    assert all(found in (cell, f"'{cell}") for found, cell in zip(raw, given, strict=True))
    assert not [cell for cell in raw if cell[:1] in FORMULAS and cell and not cell[1:].replace(".", "").isdigit()]


@pytest.mark.parametrize("figure", ["-0.12", "+0.5", "-1,234.0", "-3 %", "-0.1 to +0.2", "-1.5e-07"])
def test_a_figure_stays_a_figure(figure: str) -> None:
    assert next(csv.reader([csv_text([[figure]])])) == [figure]
    assert csv_text([[-0.12, None, -3]]) == "-0.12,,-3\r\n"


EFFECTS = ["\u202e", "\u2066", "\u200f", "\u061c", "\u2028", "\x1b", "\x00", "\x85", "\ud800"]


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_character_that_would_reorder_or_break_a_table_is_shown_as_its_escape(effect: str) -> None:
    table = Table("t", f"of a{effect}b", [["id", "mean"], [f"a{effect}b", "0.5"]])
    forms = (
        render_csv(table),
        render_latex(table),
        aligned(table.rows),
        str(cell_html(table.rows[1][0])),
        *markdown_parts([Sentence(table.caption), Bullets((table.caption,)), table]),
    )
    for form in forms:
        assert effect not in form
        assert f"{ord(effect):x}" in form


def test_letters_of_every_script_stay_as_they_are() -> None:
    text = "größer עברית العربية می‌خواهم 日本語 👩‍🔬"
    assert shown(text) == text
    assert text in aligned([["id"], [text]])


def test_a_line_break_in_an_id_does_not_end_the_row_of_a_table() -> None:
    assert len(aligned([["id"], ["a\nb"]]).splitlines()) == 3
