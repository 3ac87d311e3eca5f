"""Team draft: whose hits stand where, and that a page never depends on how many hits are asked for."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from services.ranking.team_draft import team_draft

IDS = st.lists(st.sampled_from("abcdefghij"), unique=True)


def drafted(first: str, second: str, depth: int = 10, seed: bytes = b"s") -> list[tuple[str, str | None]]:
    return team_draft(first, second, ("one", "two"), depth, seed)


def test_what_both_begin_with_belongs_to_none() -> None:
    assert drafted("abc", "abd")[:2] == [("a", None), ("b", None)]
    assert drafted("abc", "abc") == [("a", None), ("b", None), ("c", None)]
    assert drafted("ab", "ba")[0][1] is not None


def test_the_teams_take_turns_in_pairs_and_a_coin_decides_who_begins() -> None:
    seen = Counter(tuple(drafted("ab", "cd", seed=bytes([number]))) for number in range(200))
    first, second = (("a", "one"), ("c", "two")), (("b", "one"), ("d", "two"))
    orders = {(*one, *two) for one in (first, first[::-1]) for two in (second, second[::-1])}
    assert set(seen) == orders
    assert min(seen.values()) > 20


@given(first=IDS, second=IDS, seed=st.binary(max_size=4), depth=st.integers(0, 12))
def test_a_draft_holds_all_once_in_the_order_of_each(
    first: list[str], second: list[str], seed: bytes, depth: int
) -> None:
    whole = team_draft(first, second, ("one", "two"), 20, seed)
    ids = [identity for identity, _ in whole]
    assert sorted(ids) == sorted({*first, *second})
    for name, ranking in (("one", first), ("two", second)):
        picked = [identity for identity, team in whole if team == name]
        assert picked == [identity for identity in ranking if identity in picked]
    assert team_draft(first, second, ("one", "two"), depth, seed) == whole[:depth]
