"""Gates of an experiment."""

from dataclasses import replace

import pytest
import typer
from pydantic import ValidationError

from evaluator.commands.steps import end_status
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.gates import GatedFigures, Gates, judge_gates
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.load_report import gated_point, unjudged_gates
from evaluator.metrics.verdict import ScoredPair, compare_pairs
from tests.support.load_points import load_point

BOUNDS = Gates(p99_ms=500, ndcg_at_10=0.7, errors=0.01, degraded=0.05, cpu_ms=40)
WHY = {
    "p95_ms": "no p95",
    "p99_ms": "no p99",
    "ndcg_at_10": "no nDCG",
    "errors": "no query",
    "degraded": "none sent",
    "cpu_ms": "no CPU",
}


def figures(**given: float | None) -> GatedFigures:
    within: dict[str, float | None] = {
        "p95_ms": 100.0,
        "p99_ms": 500.0,
        "ndcg_at_10": 0.7,
        "errors": 0.01,
        "degraded": 0.05,
        "cpu_ms": 40.0,
    }
    return GatedFigures("bm25", "20/s", **(within | given), missing=dict(WHY))  # type: ignore[arg-type]  # by name


def test_figures_on_their_bounds_hold() -> None:
    assert [one.held for one in judge_gates(BOUNDS, [figures()], "bm25")] == [True] * 5


@pytest.mark.parametrize(
    ("gate", "worse"), [("p99_ms", 501), ("ndcg_at_10", 0.69), ("errors", 0.02), ("degraded", 0.06), ("cpu_ms", 41)]
)
def test_a_figure_beyond_its_bound_or_without_a_value_does_not_hold(gate: str, worse: float) -> None:
    for value in (worse, None):
        missed = [one for one in judge_gates(BOUNDS, [figures(**{gate: value})], "bm25") if not one.held]
        assert [one.gate for one in missed] == [gate]
        assert (missed[0].reason in WHY.values()) == (value is None)
        assert missed[0].sentence.endswith("NOT HELD")


def test_only_named_gates_are_judged_and_an_empty_block_is_refused() -> None:
    assert [one.gate for one in judge_gates(Gates(errors=0.5), [figures(p99_ms=None)], "bm25")] == ["errors"]
    assert list(judge_gates(None, [figures()], "bm25")) == []
    with pytest.raises(ValidationError, match="p99_ms"):
        Gates()


def test_a_closed_loop_is_not_judged_by_the_p99_that_it_cannot_have() -> None:
    open_point = load_point()
    closed = open_point.model_copy(update={"loop": "closed", "rate": None, "in_flight": 2})
    bounds = Gates(p99_ms=500, errors=0.01)
    judged = list(judge_gates(bounds, [gated_point(open_point, None), gated_point(closed, None)], "bm25"))
    assert [(one.traffic, one.gate) for one in judged] == [
        ("20/s", "p99_ms"), ("20/s", "errors"), ("2 in flight (capacity)", "errors")
    ]  # fmt: skip
    said = "the gate p99_ms is not judged of a closed loop, which gives no p99"
    assert list(unjudged_gates(bounds, LoadPlan(in_flight=(2,)))) == [said]
    assert list(unjudged_gates(bounds, LoadPlan(rates=(2,)))) == []


def test_a_missing_p99_has_the_one_reason_that_applies() -> None:
    few, doubtful = load_point(n=100), load_point(cpu=0.9)
    gates = Gates(p99_ms=500)
    reasons = [
        one.reason for one in judge_gates(gates, [gated_point(point, None) for point in (few, doubtful)], "bm25")
    ]
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
    gates = tuple(judge_gates(Gates(p99_ms=500), [figures(p99_ms=value)], "bm25"))
    if not status:
        end_status(doubts, gates, slower=slower)
        return
    with pytest.raises(typer.Exit) as ended:
        end_status(doubts, gates, slower=slower)
    assert ended.value.exit_code == status
    assert f"Exit status {status}: " in capsys.readouterr().err


def test_a_gate_that_names_a_pipeline_stands_in_place_of_that_of_every_pipeline() -> None:
    gates = Gates.model_validate({"p99_ms": 500, "pipelines": {"slow": {"p99_ms": 900, "errors": 0.1}}})
    judged = judge_gates(gates, [figures(), replace(figures(p99_ms=800), pipeline="slow")], "bm25")
    assert [(one.pipeline, one.gate, one.bound, one.held) for one in judged] == [
        ("bm25", "p99_ms", 500, True), ("slow", "p99_ms", 900, True), ("slow", "errors", 0.1, True)
    ]  # fmt: skip


def test_a_time_relative_to_the_baseline_is_judged_by_that_of_the_same_traffic() -> None:
    gates = Gates.model_validate({"p95_ms": "1.2 * baseline"})
    others = [replace(figures(p95_ms=ms), pipeline="slow") for ms in (120.0, 130.345, None)]
    first, second, third = (next(judge_gates(gates, [figures(), other], "bm25")) for other in others)
    assert [(one.pipeline, one.held) for one in (first, second, third)] == [
        ("slow", True), ("slow", False), ("slow", False)
    ]  # fmt: skip
    assert second.sentence == "slow at 20/s: p95_ms 130.3, at most 120 (1.2 * baseline): NOT HELD"
    assert third.sentence == "slow at 20/s: p95_ms no value (no p95), at most 120 (1.2 * baseline): NOT HELD"
    for without in (figures(p95_ms=None), replace(figures(), traffic="40/s")):
        unknown = next(judge_gates(gates, [without, others[0]], "bm25"))
        assert (unknown.held, unknown.value) == (False, None)
        assert unknown.sentence.endswith("no value (the baseline has none), at most 1.2 * baseline: NOT HELD")


@pytest.mark.parametrize(
    ("lost", "lower", "held", "said"),
    [
        (
            (),
            0.0,
            True,
            "slow: ndcg_at_10 0, at least -0.01 (baseline - 0.01): held: slow is not worse than bm25 by 0.01",
        ),
        ((), 0.02, False, "(baseline - 0.01): NOT HELD: not shown that slow is not worse than bm25 by 0.01 or more"),
        (
            ("slow: LOST 1 of 100 queries",),
            0.0,
            False,
            "no value (slow: LOST 1 of 100 queries; it compares nDCG@10 only",
        ),
    ],
)
def test_quality_relative_to_the_baseline_is_read_from_the_interval_of_its_verdict(
    lost: tuple[str, ...], lower: float, held: bool, said: str
) -> None:
    mine = {f"q{number}": 0.5 for number in range(100)}
    (verdict,) = compare_pairs([ScoredPair("bm25", "slow", mine, dict.fromkeys(mine, 0.5 - lower))], "nDCG@10")
    slow = replace(figures(), pipeline="slow", traffic=None, verdict=verdict, losses=lost)
    first = replace(figures(), traffic=None)
    gates = Gates.model_validate({"ndcg_at_10": "baseline - 0.01"})
    (judged,) = judge_gates(gates, [first, slow], "bm25")
    assert (judged.held, said in judged.sentence) == (held, True), judged.sentence
    (without,) = judge_gates(gates, [first, replace(slow, verdict=None)], "bm25")
    assert "name it first among the metrics" in without.sentence
    assert list(judge_gates(gates, [figures(), replace(slow, traffic="20/s")], "bm25")) == []  # under load: no verdict
    (remark,) = unjudged_gates(gates, LoadPlan(rates=(2,)))
    assert remark.startswith("the gate ndcg_at_10 is relative to the baseline")


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ({"p99_ms": "1.2 x baseline"}, "write milliseconds above 0, or times the baseline's: `1.2 * baseline`"),
        ({"p95_ms": "0 * baseline"}, "`1.2 * baseline`"),
        ({"cpu_ms": -1}, "write milliseconds above 0"),
        ({"ndcg_at_10": "1.2 * baseline"}, "or less than the baseline's: `baseline - 0.01`"),
        ({"ndcg_at_10": 1.2}, "write a share from 0 to 1"),
        ({"errors": "baseline - 0.01"}, "valid number"),
        ({"pipelines": {"bm25": {}}}, "name at least one of p95_ms, p99_ms"),
        ({"pipelines": {"bm26": {"errors": 0}}}, "gates.pipelines: bm26 is not among the pipelines bm25, dense"),
    ],
)
def test_a_gate_that_cannot_be_read_is_refused_with_what_to_write(gates: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Experiment.model_validate({"name": "x", "dataset": "x", "pipelines": ["bm25", "dense"], "gates": gates})
    assert said in str(refused.value)


def test_an_experiment_of_an_earlier_release_keeps_its_fingerprint() -> None:
    written = Gates(p99_ms=500, errors=0).model_dump_json()
    assert written == '{"p99_ms":500.0,"ndcg_at_10":null,"errors":0.0,"degraded":null,"cpu_ms":null}'


@pytest.mark.parametrize(
    ("value", "least", "theirs", "held", "said"),
    [
        (110.0, None, 100.0, True, None),
        (130.0, None, 100.0, False, None),
        (115.0, 110.0, 100.0, True, "by the ratio of times beside other work"),
        (130.0, 50.0, 100.0, False, "by the ratio of times beside other work"),
    ],
)
def test_a_ratio_that_other_work_left_open_is_judged_and_named(
    value: float, least: float | None, theirs: float, held: bool, said: str | None
) -> None:
    measured = [
        replace(figures(p95_ms=theirs), least={"p95_ms": 40.0 if least else None}),
        replace(figures(p95_ms=value), pipeline="dense", least={"p95_ms": least}),
    ]
    (outcome,) = judge_gates(Gates(p95_ms="1.2 * baseline"), measured, "bm25")
    assert (outcome.held, outcome.reason) == (held, said)


@pytest.mark.parametrize("value", ["9" * 400 + " * baseline", "\u0661 * baseline", "0 * baseline"])
def test_a_bound_that_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(ValidationError, match="times the baseline's"):
        Gates(p95_ms=value)
