"""What parity prints."""

from evaluator.parity.comparison import ParityReport, TriedChange
from evaluator.parity.figure_settings import Change, FigureSettings, changed
from evaluator.parity.published import PublishedFigures
from evaluator.parity.verdict import render_parity, verdict

SERVED = FigureSettings(fields="best_fields", k1=1.2, b=0.75, tie_breaker=0.5)


def report(
    figure: float, printed: str, *tried: tuple[Change, float, bool], engine: str = "elasticsearch 9"
) -> ParityReport:
    published = PublishedFigures(
        figures={"nDCG@10": printed}, documented=changed(SERVED, {"k1": 1.5}), source="a paper"
    )
    changes = tuple(
        TriedChange(change=dict(one), figures={"nDCG@10": value}, explains=yes) for one, value, yes in tried
    )
    return ParityReport(
        preset="beir",
        dataset="shop",
        split="test",
        generation="shop@1",
        engine=engine,
        queries=10,
        served=SERVED,
        published=published,
        figures={"nDCG@10": figure},
        equal=not tried,
        undecided_ties=0,
        tried=changes,
        explained_by=tuple(one.change for one in changes if one.explains),
    )


def test_equal_names_the_last_decimal_that_was_printed() -> None:
    assert verdict(report(0.69061, "0.6906")) == "Equal to the 4th decimal."
    assert verdict(report(0.34411, "0.344")) == "Equal to the 3rd decimal."


def test_the_settings_that_explain_a_gap_are_named_with_both_values() -> None:
    both: Change = {"k1": 1.5, "missing": "dropped"}
    assert verdict(report(0.3273, "0.344", ({"k1": 1.5}, 0.3286, False), (both, 0.3441, True))) == (
        "Off by -0.0167 nDCG@10. Explained by k1 (1.5 instead of 1.2) and queries without hits (dropped instead of "
        "counted as 0), together."
    )


def test_without_an_explanation_the_nearest_change_is_named_if_any_is_nearer() -> None:
    tried = (({"k1": 1.5}, 0.33, False), ({"b": 0.4}, 0.2, False))
    assert "none of the 2 changes tried; nearest is k1 (1.5 instead of 1.2), off by -0.0100" in verdict(
        report(0.32, "0.340", *tried)
    )
    assert verdict(report(0.335, "0.340", *tried)).endswith("and none makes the gap smaller.")


def test_an_engine_that_is_not_lucene_is_told() -> None:
    said = verdict(report(0.32, "0.340", ({"k1": 1.5}, 0.33, False), engine="qdrant-edge"))
    assert said.endswith(
        "The engine is qdrant-edge; the published figures are Lucene's, whose document lengths are rounded."
    )


def test_the_table_has_single_settings_and_what_explains_the_gap() -> None:
    both: Change = {"k1": 1.5, "missing": "dropped"}
    other: Change = {"k1": 1.5, "b": 0.4}
    page = render_parity(
        report(0.3273, "0.344", ({"k1": 1.5}, 0.3286, False), (both, 0.3441, True), (other, 0.3, False))
    )
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")][2:]
    assert rows == [
        ["k1", "1.2", "1.5", "0.3286", ""],
        ["k1, queries without hits", "1.2, counted as 0", "1.5, dropped", "0.3441", "yes"],
    ]
