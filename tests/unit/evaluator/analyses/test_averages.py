"""Means over sets say over which sets they are, and never compare means over different ones."""

import pytest

from evaluator.analyses.averages import SetRow, common_rows, ndcg_at_10, set_rows, summarise
from evaluator.datasets.catalogue import load_catalogue
from evaluator.parity.published import figures_on
from tests.support.analysed_sets import analysed_set

CATALOGUE = load_catalogue()
FORUMS = [
    analysed_set("cqadupstack/android", "cqadupstack", bm25=0.2, dense=0.4),
    analysed_set("cqadupstack/unix", "cqadupstack", bm25=0.4, dense=0.2),
]


def rows_of(*sets: object) -> tuple[SetRow, ...]:
    return set_rows(sets, CATALOGUE)  # type: ignore[arg-type]


def test_the_percentage_of_means_weighs_sets_by_their_figures_and_the_mean_percentage_weighs_them_equally() -> None:
    rows = rows_of(analysed_set("one", bm25=0.2, dense=0.3), analysed_set("two", bm25=0.8, dense=0.6))
    baseline, dense = summarise(rows, ("bm25", "dense"), "bm25")
    assert dense.percent_of_means == pytest.approx(100 * (0.9 / 1.0 - 1))
    assert dense.mean_percent == pytest.approx((50 - 25) / 2)
    assert (dense.better, dense.worse, dense.equal) == (("one",), ("two",), ())
    assert dense.mean == pytest.approx(0.45)
    assert (baseline.percent_of_means, baseline.mean_percent, baseline.better) == (None, None, ())


def test_a_pipeline_that_lacks_a_set_has_a_mean_of_its_own_sets_and_one_of_the_common_sets() -> None:
    rows = rows_of(analysed_set("one", bm25=0.2, dense=0.3), analysed_set("two", bm25=0.8))
    baseline, dense = summarise(rows, ("bm25", "dense"), "bm25")
    assert (baseline.mean, baseline.mean_of) == (0.5, ("one", "two"))
    assert (baseline.common_mean, dense.common_mean) == (0.2, 0.3)
    assert (dense.mean_of, dense.percent_of) == (("one",), ("one",))


def test_without_the_baseline_on_a_set_there_is_no_comparison_there() -> None:
    rows = rows_of(analysed_set("one", dense=0.3), analysed_set("two", bm25=0.4, dense=0.4))
    _, dense = summarise(rows, ("bm25", "dense"), "bm25")
    assert (dense.equal, dense.better, dense.mean_percent, dense.percent_of) == (("two",), (), 0, ("two",))


def test_a_baseline_of_zero_counts_as_beaten_and_gives_no_percentage() -> None:
    _, dense = summarise(rows_of(analysed_set("one", bm25=0.0, dense=0.3)), ("bm25", "dense"), "bm25")
    assert (dense.better, dense.percent_of_means, dense.mean_percent, dense.percent_of) == (
        ("one",), None, None, (),
    )  # fmt: skip


def test_a_set_of_parts_counts_once_with_the_mean_of_its_parts() -> None:
    rows = rows_of(*FORUMS, analysed_set("one", bm25=0.5, dense=0.5))
    assert [(row.label, row.counted) for row in rows] == [
        ("cqadupstack/android", False),
        ("cqadupstack/unix", False),
        ("cqadupstack (mean of 2 of 12 parts)", True),
        ("one", True),
    ]
    baseline, _ = summarise(rows, ("bm25", "dense"), "bm25")
    assert baseline.mean_of == ("cqadupstack", "one")
    assert baseline.mean == pytest.approx((0.3 + 0.5) / 2)


def test_a_part_without_a_figure_leaves_the_whole_without_one() -> None:
    lacking = analysed_set("cqadupstack/unix", "cqadupstack", bm25=0.4)
    *_, whole = rows_of(FORUMS[0], lacking)
    assert whole.figure("dense", ndcg_at_10) is None
    assert common_rows([whole], ("bm25", "dense"), ndcg_at_10) == ()


def test_ms_marco_is_shown_and_in_no_mean() -> None:
    rows = rows_of(analysed_set("msmarco", bm25=0.1), analysed_set("one", bm25=0.5))
    (baseline,) = summarise(rows, ("bm25",), "bm25")
    assert [row.name for row in rows] == ["msmarco", "one"]
    assert (baseline.mean, baseline.mean_of) == (0.5, ("one",))


def test_the_printed_figures_of_the_paper_give_its_counts_and_neither_average_gives_its_11_percent() -> None:
    names = sorted({known.part_of or known.name for known in CATALOGUE.sets.values()})
    printed = {name: figures_on(name) for name in names}
    rows = rows_of(
        *(
            analysed_set(name, bm25=float(of["paper-bm25"]["nDCG@10"]), ce=float(of["paper-bm25-ce"]["nDCG@10"]))
            for name, of in printed.items()
        )
    )
    _, summary = summarise(rows, ("bm25", "ce"), "bm25")
    assert len(summary.percent_of) == 18  # without MS MARCO
    assert (len(summary.better), summary.worse) == (16, ("arguana", "webis-touche2020"))
    assert summary.percent_of_means == pytest.approx(12.5, abs=0.05)
    assert summary.mean_percent == pytest.approx(14.3, abs=0.05)
