"""A table is the same in Markdown, CSV and LaTeX; only the digits differ."""

import csv
import io

from evaluator.analyses.table import FigureTable

TABLE = FigureTable(
    name="table-2-ndcg",
    title="nDCG@10 of 100 % & more",
    header=("set", "bm25_k1", "hits"),
    formats=("", ".4f", "d"),
    rows=(("trec_covid", 0.123456789, 3), ("one, two", None, None), ("mean of 1 of 2 sets", 0.5, None)),
    last=1,
    why_missing=("one: bm25_k1 was not measured.",),
)


def test_markdown_rounds_and_shows_a_missing_figure_as_a_dash() -> None:
    assert "| trec_covid          |  0.1235 |    3 |" in TABLE.markdown()
    assert "| one, two            |       – |    – |" in TABLE.markdown()


def test_csv_has_all_digits_and_nothing_for_a_missing_figure() -> None:
    assert list(csv.reader(io.StringIO(TABLE.csv()))) == [
        ["set", "bm25_k1", "hits"],
        ["trec_covid", "0.123456789", "3"],
        ["one, two", "", ""],
        ["mean of 1 of 2 sets", "0.5", ""],
    ]


def test_latex_escapes_what_it_would_take_for_commands() -> None:
    lines = TABLE.latex().splitlines()
    assert r"\caption{nDCG@10 of 100 \% \& more}" in lines
    assert r"\begin{tabular}{lrr}" in lines
    assert r"set & bm25\_k1 & hits \\" in lines
    assert r"trec\_covid & 0.1235 & 3 \\" in lines
    assert r"one, two & -- & -- \\" in lines
    assert lines[0] == "% one: bm25_k1 was not measured."


def test_latex_prints_the_best_of_each_row_in_bold() -> None:
    table = FigureTable(
        name="t",
        title="t",
        header=("set", "a", "b", "c"),
        formats=("", ".2f", ".2f", ".2f"),
        rows=(("one", 0.5, 0.25, None), ("two", 0.301, 0.304, 0.2), ("three", 0.5, None, None)),
        best_in_bold=True,
    )
    lines = table.latex().splitlines()
    assert r"one & \textbf{0.50} & 0.25 & -- \\" in lines
    assert r"two & \textbf{0.30} & \textbf{0.30} & 0.20 \\" in lines
    assert r"three & 0.50 & -- & -- \\" in lines


def test_means_stand_below_a_rule_of_their_own() -> None:
    lines = TABLE.latex().splitlines()
    assert lines[lines.index(r"mean of 1 of 2 sets & 0.5000 & -- \\") - 1] == r"\midrule"
