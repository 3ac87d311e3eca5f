"""A table is the same in every form, whatever its cells hold."""

import pytest

from evaluator.pages.html_page import cell_html
from evaluator.pages.markdown_page import aligned, markdown_parts
from evaluator.pages.page_blocks import Bullets, Sentence, Table
from evaluator.progress import shown


def test_a_column_holds_figures_words_or_labels() -> None:
    rows = [["name", "mean", "interval", "reason"], ["bm25", "-0.1", "+0.1 to +0.2", "a long reason " * 4]]
    assert Table("t", "", rows).column_looks == ("label", "figure", "figure", "words")


def test_a_column_of_one_character_has_a_rule_of_two() -> None:
    assert aligned([("d", "w"), ("1", "a")]) == "|  d | w  |\n| -: | -- |\n|  1 | a  |"


def test_neither_a_bar_nor_a_line_break_splits_a_cell() -> None:
    assert aligned([("slice",), ("a|x",)]) == "| slice |\n| ----- |\n| a\\|x  |"
    assert len(aligned([["id"], ["a\nb"]]).splitlines()) == 3


@pytest.mark.parametrize("effect", ["\u202e", "\u061c", "\u2028", "\x1b", "\x00", "\ud800"])
def test_a_character_that_would_reorder_or_break_a_table_is_shown_as_its_escape(effect: str) -> None:
    table = Table("t", f"of a{effect}b", [["id", "mean"], [f"a{effect}b", "0.5"]])
    forms = (
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
