"""A table is Markdown whatever its cells hold."""

from evaluator.pages.markdown_table import aligned


def test_a_column_of_one_character_has_a_rule_of_two() -> None:
    assert aligned([("d", "w"), ("1", "a")]) == "|  d | w  |\n| -: | -- |\n|  1 | a  |"


def test_a_bar_does_not_split_its_cell() -> None:
    assert aligned([("slice",), ("a|x",)]) == "| slice |\n| ----- |\n| a\\|x  |"
