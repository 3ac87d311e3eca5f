"""A unit's value is the mean over its searches of one day, and enters once, in order, when the day has ended."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evaluator.online.journal import read_journals
from evaluator.online.unit_values import UnitValues, shown_metrics, unit_values
from services.contracts.online import Event, Exposure
from tests.support.journals import did, hours, shown, write_journal


def valued(folder: Path, lines: Sequence[Exposure | Event], now: float = 1_000) -> list[UnitValues]:
    (journal,) = read_journals([str(write_journal(folder, lines))], hours(now))
    return list(unit_values(journal, shown_metrics(journal), hours(now).timestamp()))


def values(folder: Path, lines: Sequence[Exposure | Event]) -> dict[str, float]:
    (unit,) = valued(folder, lines)
    assert unit.values is not None
    return dict(unit.values)


def test_each_metric_of_one_search(tmp_path: Path) -> None:
    search = shown("u", metric="click@2")
    clicks = [did(search, 0.2, object_id="x"), did(search, 0.1, object_id="z"), did(search, 0.3)]
    bought = [did(search, at, "buy", value=price) for at, price in ((0.4, 2.5), (0.5, 4.0))]
    assert values(tmp_path, [search, *clicks, *bought, did(search, 0.6, "like", object_id="x")]) == {
        "click@2": 1.0, "click@10": 1.0, "reciprocal_rank": 1 / 3, "abandonment": 0.0, "value:buy": 6.5
    }  # fmt: skip


def test_a_click_below_k_counts_elsewhere_and_a_search_without_an_answer_is_abandoned(tmp_path: Path) -> None:
    search = shown("u", metric="click@2")
    failed = shown("u", 1, hits="", metric="click@2", error="timeout", failed={"a": "timeout"})
    assert values(tmp_path, [search, failed, did(search, object_id="z")]) == {
        "click@2": 0.0, "click@10": 0.5, "reciprocal_rank": 1 / 6, "abandonment": 0.5
    }  # fmt: skip


def test_what_comes_after_the_day_does_not_count(tmp_path: Path) -> None:
    first, late, next_day = shown("u"), shown("u", 23), shown("u", 24)
    clicks = [did(late, 1.5, object_id="x"), did(next_day, object_id="x")]
    assert values(tmp_path, [first, late, next_day, *clicks])["click@10"] == 0.0


def test_units_come_in_order_and_have_values_when_their_day_has_ended(tmp_path: Path) -> None:
    units = valued(tmp_path, [shown("w", 9), shown("v", 5), shown("u", 10), shown("u", 4)], now=29)
    assert [(unit.at, unit.values is None) for unit in units] == [
        (hours(4).timestamp(), False),
        (hours(5).timestamp(), False),
        (hours(9).timestamp(), True),
    ]


@pytest.mark.parametrize(("at", "moved"), [(23.9, True), (24.0, False)])
def test_a_unit_leaves_where_it_met_two_arms_within_its_day(tmp_path: Path, at: float, moved: bool) -> None:
    (unit,) = valued(tmp_path, [shown("u"), shown("u", at, arm="b")])
    assert (unit.arm, unit.moved, unit.values is None) == ("a", moved, moved)


def test_credits_are_of_hits_that_were_clicked_and_searches_of_one_arm_are_left_out(tmp_path: Path) -> None:
    mixed: dict[str, Any] = {"arm": None, "mode": "interleave"}
    search = shown("u", **mixed, hits="wxyz", teams=(None, "b", "a", "b"))
    clicks = [did(search, at, object_id=hit) for at, hit in enumerate("wxxzy")]
    empty, alone = shown("u", 1, **mixed), shown("u", 2, **mixed, failed={"b": "timeout"})
    assert values(tmp_path, [search, *clicks, empty, alone]) == {"credits": 0.5}
    (left,) = valued(tmp_path / "other", [alone])
    assert (left.moved, left.values) == (False, None)
