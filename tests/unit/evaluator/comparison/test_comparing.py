import pytest

from evaluator.comparison.comparing import overlap_of_top_10


@pytest.mark.parametrize(
    ("first", "second", "share"),
    [("abc", "cba", 1.0), ("abc", "def", 0.0), ("abcd", "ab", 0.5), ("", "", 1.0), ("", "a", 0.0)],
)
def test_the_overlap_is_the_share_of_the_longer_ranking(first: str, second: str, share: float) -> None:
    assert overlap_of_top_10(first, second) == share
    assert overlap_of_top_10("0123456789" + first, "0123456789" + second) == 1.0
