"""The order in which arms take turns: who follows whom, how often, and with which query."""

from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.experiments.turn_orders import balanced_turns, query_turns


@given(arms=st.integers(2, 12), turns=st.integers(1, 150), seed=st.integers())
def test_every_arm_follows_every_other_equally_often_and_never_itself(arms: int, turns: int, seed: int) -> None:
    order = [arm for turn in islice(balanced_turns(arms, seed), turns) for arm in turn]
    followed = Counter(pairwise(order))
    counts = [followed[before, arm] for before in range(arms) for arm in range(arms) if before != arm]
    assert max(counts) - min(counts) <= 3
    assert sum(counts) == len(order) - 1


@given(arms=st.integers(4, 12), seed=st.integers())
def test_all_arms_come_equally_early_on_average(arms: int, seed: int) -> None:
    # The sums of places differ by 20 or so after any number of turns; so their means come together.
    turns = list(islice(balanced_turns(arms, seed), 120))
    places = [sum(turn.index(arm) for turn in turns) / len(turns) for arm in range(arms)]
    assert max(places) - min(places) < 0.3


def test_the_order_follows_from_the_seed() -> None:
    first, again, other = (list(islice(balanced_turns(5, seed), 20)) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("queries", "arms"), [(7, 3), (5, 5), (2, 5), (60, 5), (1, 1)])
def test_every_arm_gets_every_query_once_the_arms_in_turn(queries: int, arms: int, apart: bool) -> None:
    turns = list(query_turns([str(number) for number in range(queries)], arms, seed=0, apart=apart))
    assert len({asked for turn in turns for asked in turn}) == sum(map(len, turns)) == queries * arms
    assert all({arm for arm, _ in turn} == set(range(arms)) for turn in turns)
    if queries >= arms:  # one query in a turn; apart, no two arms ask the same one
        assert {len({query for _, query in turn}) for turn in turns} == {arms if apart else 1}
