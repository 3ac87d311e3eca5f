"""Online experiments: who is in which arm, and declarations that are refused."""

import math
from collections import Counter

import pytest
from pydantic import ValidationError

from services.contracts.online import OnlineExperiment, SentEvent

UNITS = [f"user-{number}" for number in range(100_000)]


def experiment(salt: str = "winter", **arms: float) -> OnlineExperiment:
    return OnlineExperiment.model_validate({"arms": arms, "salt": salt})


def test_shares_hold_within_the_binomial_bound_and_no_unit_leaves_a_growing_arm() -> None:
    before, after = experiment(hybrid=90, rerank=10), experiment(hybrid=1, rerank=1)
    arms = [(before.arm_of(unit), after.arm_of(unit)) for unit in UNITS]
    for share, count in ((0.1, before), (0.5, after)):
        seen = sum(pair[count is after] == "rerank" for pair in arms)
        assert abs(seen - share * len(UNITS)) < 4 * math.sqrt(len(UNITS) * share * (1 - share))
    assert ("rerank", "hybrid") not in set(arms)


def test_three_arms_have_their_shares_and_a_salt_draws_anew() -> None:
    winter, summer = experiment(a=2, b=1, c=1), experiment("summer", a=2, b=1, c=1)
    assert winter.shares == {"a": 0.5, "b": 0.25, "c": 0.25}
    pairs = Counter((winter.arm_of(unit), summer.arm_of(unit)) for unit in UNITS[:20_000])
    for (one, other), count in pairs.items():
        assert count / 20_000 == pytest.approx(winter.shares[one] * summer.shares[other], abs=0.015)


def test_an_arm_is_the_same_in_every_release() -> None:
    declared = experiment(hybrid=90, rerank=10)
    assert [unit for unit in UNITS[:60] if declared.arm_of(unit) == "rerank"] == ["user-1", "user-31", "user-35"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": {"a": 1}}, "at least 2"),
        ({"arms": {"a": 1, "b": 0}}, "greater than"),
        ({"arms": {"a": 1e6, "b": 1e-12}}, "greater than"),
        ({"metric": "clicks"}, "pattern"),
        ({"mode": "interleave", "arms": {"a": 90, "b": 10}}, "equal shares"),
        ({"mode": "interleave", "arms": {"a": 1, "b": 1, "c": 1}}, "two arms"),
        ({"mode": "interleave", "metric": "abandonment"}, "leave metric out"),
    ],
)
def test_a_declaration_that_decides_nothing_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        OnlineExperiment.model_validate({"arms": {"a": 1, "b": 1}, "salt": "s", **change})


def test_what_a_gateway_lists_parses_again() -> None:
    for mode in ("split", "interleave"):
        declared = OnlineExperiment.model_validate({"arms": {"a": 1, "b": 1}, "salt": "s", "mode": mode})
        assert OnlineExperiment.model_validate_json(declared.model_dump_json()) == declared


@pytest.mark.parametrize("change", [{"position": 0}, {"client_id": "two words"}, {"value": math.inf}, {"event_id": ""}])
def test_an_event_out_of_bounds_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        SentEvent.model_validate({"query_id": "q", "client_id": "u", "action_name": "click", "event_id": "e", **change})
