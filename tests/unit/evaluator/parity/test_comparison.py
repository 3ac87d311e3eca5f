"""Figures of scored answers, and what parity prints of them."""

import pytest

from evaluator.datasets.reader import read_dataset
from evaluator.parity.comparison import OtherSetting, ParityReport, figures, render_parity, verdict
from evaluator.parity.published import PublishedFigures
from tests.support.gateway_stub import write_shop


def report(figure: float, printed: str, *differing: OtherSetting, engine: str = "elasticsearch 9") -> ParityReport:
    published = PublishedFigures(figures={"nDCG@10": printed}, documented={"k1": "1.5"}, source="a paper")
    return ParityReport(
        system="beir",
        dataset="shop",
        split="test",
        generation="shop@1",
        engine=engine,
        queries=10,
        published=published,
        figures={"nDCG@10": figure},
        equal=abs(figure - float(printed)) < 0.0005,
        differing=differing,
    )


def test_equal_names_the_last_decimal_that_was_printed() -> None:
    assert verdict(report(0.69061, "0.6906")).startswith("Equal to the 4th decimal. No setting differs")
    assert verdict(report(0.34411, "0.344")).startswith("Equal to the 3rd decimal.")


def test_a_gap_is_printed_with_the_settings_that_differ_and_an_engine_that_is_not_lucene() -> None:
    k1 = OtherSetting(setting="k1", served="1.2", published="1.5")
    page = render_parity(report(0.3273, "0.344", k1, engine="qdrant-edge"))
    assert "served:    nDCG@10 0.3273\npublished: nDCG@10 0.344 (a paper)\n" in page
    assert page.endswith(
        "Off by -0.0167 nDCG@10. Settings unlike those of the source: k1 ('1.2' instead of '1.5'). The engine is "
        "qdrant-edge; the published figures are Lucene's, whose document lengths are rounded."
    )


def test_the_query_itself_is_left_out_and_a_query_without_hits_counts_as_0(tmp_path) -> None:
    dataset = read_dataset(write_shop(tmp_path / "shop"))
    (itself,) = dataset.self_retrieved
    relevant = next(name for name, grade in dataset.judgments[itself].items() if grade > 0)
    answers = dict.fromkeys(dataset.judgments, ()) | {itself: ((itself, 3.0), (relevant, 2.0))}
    alone = figures(dataset, {itself: ((relevant, 2.0),)})["nDCG@10"]
    assert figures(dataset, answers)["nDCG@10"] == pytest.approx(alone / len(answers))
