"""The set of a file of added judgments is said, and never guessed."""

from pathlib import Path

import pytest

from evaluator.analyses.judgment_files import judgment_files
from evaluator.errors import WrongOption


def test_a_file_alone_is_of_the_only_set() -> None:
    assert judgment_files(["more.tsv"], ["shop"]) == {"shop": Path("more.tsv")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["more.tsv"], "query ids of two sets may be the same; say of which set it is: shop=more.tsv"),
        (["shed=more.tsv"], "no set 'shed' in these runs; there are shop, depot"),
        (["shop=a.tsv", "shop=b.tsv"], "a second file for shop"),
    ],
)
def test_the_set_of_a_file_is_never_guessed(words: list[str], said: str) -> None:
    with pytest.raises(WrongOption, match=said):
        judgment_files(words, ["shop", "depot"])
