"""Tables as files for spreadsheets and papers."""

import csv
import io

from evaluator.page_blocks import Bullets, FoldedBlocks, Heading, Table, tables_of
from evaluator.table_files import render_csv, render_latex

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
