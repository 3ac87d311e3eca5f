"""Gates of an experiment."""

import pytest
import typer
from pydantic import ValidationError

from evaluator.commands.steps import end_status
from evaluator.experiments.gates import GatedFigures, Gates, judge_gates
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.load_report import gated_point, unjudged_gates
from tests.support.load_points import load_point

BOUNDS = Gates(p99_ms=500, ndcg_at_10=0.7, errors=0.01, degraded=0.05, cpu_ms=40)
WHY = {"p99_ms": "no p99", "ndcg_at_10": "no nDCG", "errors": "no query", "degraded": "none sent", "cpu_ms": "no CPU"}


def figures(**given: float | None) -> GatedFigures:
    within: dict[str, float | None] = {
        "p99_ms": 500.0,
        "ndcg_at_10": 0.7,
        "errors": 0.01,
        "degraded": 0.05,
        "cpu_ms": 40.0,
    }
    return GatedFigures("bm25", "20/s", **(within | given), missing=dict(WHY))  # type: ignore[arg-type]  # by name


def test_figures_on_their_bounds_hold() -> None:
    assert [one.held for one in judge_gates(BOUNDS, [figures()])] == [True] * 5


@pytest.mark.parametrize(
    ("gate", "worse"), [("p99_ms", 501), ("ndcg_at_10", 0.69), ("errors", 0.02), ("degraded", 0.06), ("cpu_ms", 41)]
)
def test_a_figure_beyond_its_bound_or_without_a_value_does_not_hold(gate: str, worse: float) -> None:
    for value in (worse, None):
        missed = [one for one in judge_gates(BOUNDS, [figures(**{gate: value})]) if not one.held]
        assert [one.gate for one in missed] == [gate]
        assert (missed[0].reason in WHY.values()) == (value is None)
        assert missed[0].sentence.endswith("NOT HELD")


def test_only_named_gates_are_judged_and_an_empty_block_is_refused() -> None:
    assert [one.gate for one in judge_gates(Gates(errors=0.5), [figures(p99_ms=None)])] == ["errors"]
    assert list(judge_gates(None, [figures()])) == []
    with pytest.raises(ValidationError, match="p99_ms"):
        Gates()


def test_a_closed_loop_is_not_judged_by_the_p99_that_it_cannot_have() -> None:
    open_point = load_point()
    closed = open_point.model_copy(update={"loop": "closed", "rate": None, "in_flight": 2})
    bounds = Gates(p99_ms=500, errors=0.01)
    judged = list(judge_gates(bounds, [gated_point(open_point, None), gated_point(closed, None)]))
    assert [(one.traffic, one.gate) for one in judged] == [
        ("20/s", "p99_ms"), ("20/s", "errors"), ("2 in flight (capacity)", "errors")
    ]  # fmt: skip
    said = "the gate p99_ms is not judged of a closed loop, which gives no p99"
    assert list(unjudged_gates(bounds, LoadPlan(in_flight=(2,)))) == [said]
    assert list(unjudged_gates(bounds, LoadPlan(rates=(2,)))) == []


def test_a_missing_p99_has_the_one_reason_that_applies() -> None:
    few, doubtful = load_point(n=100), load_point(cpu=0.9)
    gates = Gates(p99_ms=500)
    reasons = [one.reason for one in judge_gates(gates, [gated_point(point, None) for point in (few, doubtful)])]
    assert reasons == ["100 of the 662 requests that a p99 needs", "the times are not valid"]


@pytest.mark.parametrize(
    ("value", "doubts", "slower", "status"),
    [
        (400.0, [], False, 0),
        (600.0, ["times are not valid"], False, 4),
        (None, ["times are not valid"], False, 3),
        (None, [], False, 4),
        (400.0, ["times are not valid"], False, 3),
        (400.0, ["the comparison cannot tell"], True, 4),
    ],
)
def test_what_was_found_comes_before_what_cannot_be_told(
    value: float | None, doubts: list[str], slower: bool, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    gates = tuple(judge_gates(Gates(p99_ms=500), [figures(p99_ms=value)]))
    if not status:
        end_status(doubts, gates, slower=slower)
        return
    with pytest.raises(typer.Exit) as ended:
        end_status(doubts, gates, slower=slower)
    assert ended.value.exit_code == status
    assert f"Exit status {status}: " in capsys.readouterr().err


def test_the_sentence_has_value_bound_and_outcome() -> None:
    (found,) = judge_gates(Gates(p99_ms=500), [figures(p99_ms=612.345)])
    assert found.sentence == "bm25 at 20/s: p99_ms 612.3, at most 500: NOT HELD"
    (missing,) = judge_gates(Gates(cpu_ms=40), [figures(cpu_ms=None)])
    assert missing.sentence == "bm25 at 20/s: cpu_ms no value (no CPU), at most 40: NOT HELD"
