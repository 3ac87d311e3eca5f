"""The set of a file of added judgments is said, and never guessed."""

from pathlib import Path

import pytest

from evaluator.analyses.judgment_files import judgment_files
from evaluator.errors import WrongOption


def test_files_alone_are_of_the_only_set() -> None:
    assert judgment_files(["more.tsv", "shop=again.tsv"], ["shop"]) == {"shop": [Path("more.tsv"), Path("again.tsv")]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["more.tsv"], "query ids of two sets may be the same; say of which set it is: shop=more.tsv"),
        (["shed=more.tsv"], "no set 'shed' in these runs; there are shop, depot"),
    ],
)
def test_the_set_of_a_file_is_never_guessed(words: list[str], said: str) -> None:
    with pytest.raises(WrongOption, match=said):
        judgment_files(words, ["shop", "depot"])
