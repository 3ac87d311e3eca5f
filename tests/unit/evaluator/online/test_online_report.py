"""The report of an experiment: ratio first, then verdicts in a fixed grammar that figures bear out."""

import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluator.online.online_page import online_page
from evaluator.online.online_report import OnlineReport, online_reports
from evaluator.pages.markdown_page import render_markdown
from services.contracts.online import Event, Exposure
from tests.support.journals import HALVES, did, hours, shown, write_journal

NUMBER = r"[+-]\d\.\d{4}"
GRAMMAR = re.compile(
    r"(b is (better|worse) than a(, by less than 0\.01)?|b is the same as a within 0\.01"
    rf"|This experiment cannot tell b from a yet): \S+ {NUMBER} \((no interval yet"
    rf"|95 % interval {NUMBER} to {NUMBER} at every look)\)\. [\d,]+ units(, fewer than 100 in an arm)?\."
)


def lines(
    chances: Mapping[str, float], units: int, shares: Mapping[str, float] = HALVES, **attributes: Any
) -> Iterator[Exposure | Event]:
    """Yields one search per unit, ten an hour, and a click on the first hit with the arm's chance."""
    dice = random.Random(7)
    for number in range(units):
        (arm,) = dice.choices(list(shares), list(shares.values()))
        search = shown(f"u{number}", number / 10, arm=arm, shares=dict(shares), **attributes)
        yield search
        if dice.random() < chances[arm]:
            yield did(search, object_id="x")


def report(folder: Path, *parts: Iterator[Exposure | Event], now: float = 500, effect: float = 0.1) -> OnlineReport:
    journals = [str(write_journal(folder / str(number), part)) for number, part in enumerate(parts)]
    (only,) = online_reports(journals, hours(now), "shop", effect)
    return only


@pytest.mark.parametrize(
    ("of_b", "metric", "words"),
    [
        (0.8, "click@10", "b is better than a: click@10 +"),
        (0.1, "click@10", "b is worse than a: click@10 -"),
        (0.8, "abandonment", "b is better than a: abandonment -"),
        (0.1, "abandonment", "b is worse than a: abandonment +"),
        (0.4, "reciprocal_rank", "This experiment cannot tell b from a yet: reciprocal_rank "),
    ],
)
def test_a_verdict_follows_the_clicks(tmp_path: Path, of_b: float, metric: str, words: str) -> None:
    done = report(tmp_path, lines({"a": 0.4, "b": of_b}, 4_000, metric=metric))
    (verdict,) = done.verdicts
    assert verdict.sentence.startswith(words)
    assert GRAMMAR.fullmatch(verdict.sentence), verdict.sentence
    assert done.ratio.startswith("The sample ratio is in order: a has ")
    means = {one.arm: one.mean for one in done.metrics if one.metric == "click@10"}
    assert means == {"a": pytest.approx(0.4, abs=0.03), "b": pytest.approx(of_b, abs=0.03)}


def test_the_first_units_are_too_few_and_the_newest_are_waited_for(tmp_path: Path) -> None:
    done = report(tmp_path, lines({"a": 0.0, "b": 1.0}, 250), now=40)
    (verdict,) = done.verdicts
    assert verdict.sentence.endswith("(no interval yet). 161 units, fewer than 100 in an arm.")
    assert (done.open, verdict.needed) == (89, None)


def test_it_says_how_long_an_effect_takes_at_the_present_pace(tmp_path: Path) -> None:
    done = report(tmp_path, lines({"a": 0.5, "b": 0.5}, 3_000), now=300, effect=0.05)
    (verdict,) = done.verdicts
    assert verdict.needed is not None
    waiting = sum(one.units for one in done.metrics if one.metric == "click@10")
    assert verdict.days == pytest.approx((verdict.needed - waiting) / 240, rel=0.01)
    assert f"{verdict.days:.1f} more days" in render_markdown("", online_page([done]).blocks)


def test_a_wrong_ratio_stops_the_verdict(tmp_path: Path) -> None:
    done = report(tmp_path, (line for line in lines({"a": 0.0, "b": 0.9}, 4_000) if "u1" not in line.client_id
                             or isinstance(line, Event) or line.query_attributes.arm == "b"))  # fmt: skip
    assert (done.alarm, done.verdicts) == (True, ())
    assert {(one.difference, one.interval) for one in done.metrics} == {(None, None)}
    page = render_markdown("", online_page([done]).blocks)
    assert "**The sample ratio is wrong: a has " in page
    assert "better" not in page


def test_changed_shares_and_arms_weigh_each_unit_by_those_of_its_coming(tmp_path: Path) -> None:
    """At first few and only bad searches are of b: unweighted means would favour b, which is the same."""
    before = lines({"a": 0.1, "b": 0.1}, 4_000, {"a": 0.9, "b": 0.1})
    three = {"a": 0.25, "b": 0.5, "c": 0.25}
    after = (
        line.model_copy(update={"query_id": f"n{line.query_id}", "client_id": f"n{line.client_id}",
                                "timestamp": line.timestamp + (hours(400) - hours(0))}
                        | ({"event_attributes": line.event_attributes.model_copy(update={"event_id": line.query_id})}
                           if isinstance(line, Event) else {}))
        for line in lines({"a": 0.8, "b": 0.8, "c": 0.8}, 4_000, three)
    )  # fmt: skip
    done = report(tmp_path, before, after, now=900)
    assert not done.alarm
    assert [verdict.arm for verdict in done.verdicts] == ["b", "c"]
    means = [one.mean or 0.0 for one in done.metrics if one.metric == "click@10"]
    assert means[1] - means[0] > 0.2
    assert [one.difference for one in done.metrics if one.metric == "click@10"][1:] == pytest.approx([0, 0], abs=0.03)


def test_guardrails_are_of_all_searches_by_assigned_arm(tmp_path: Path) -> None:
    slow = [shown(f"u{at}", at, "b", ms=float(at), degraded=at > 90, failed={"b": "timeout"}) for at in range(1, 101)]
    done = report(tmp_path, iter([shown("u"), *slow, shown("v", 1, hits="", error="timeout")]), now=100)
    rows = [(one.arm, one.searches, one.p95_ms, one.errors, one.degraded) for one in done.guardrails]
    assert rows == [("a", 2, 5.0, 0.5, 0.0), ("b", 100, 95.0, 0.0, 0.1)]


def test_an_interleaving_prefers_the_arm_whose_hits_are_clicked(tmp_path: Path) -> None:
    def searches() -> Iterator[Exposure | Event]:
        dice = random.Random(7)
        for number in range(1_000):
            search = shown(f"u{number}", arm=None, mode="interleave", teams=("a", "b", "a"))
            yield search
            yield did(search, object_id=dice.choice("xyyy"))

    done = report(tmp_path, searches())
    (verdict,) = done.verdicts
    assert verdict.sentence.startswith("b is better than a: credits +0.4")
    assert (done.ratio, [one.arm for one in done.guardrails]) == ("", [None])
    assert OnlineReport.model_validate_json(done.model_dump_json()) == done
