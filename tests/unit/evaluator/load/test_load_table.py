"""The sentences beside the table of a load."""

from evaluator.cached_results import CacheUse
from evaluator.load.loading_figures import LoadingFigures
from evaluator.load.table import load_warnings, render_loading
from tests.support.load_points import load_point, load_report


def test_hit_rates_stand_beside_the_table() -> None:
    used = {"dense": CacheUse(hits=3, of=4, rate=0.75), "reranker": CacheUse(hits=0, of=200, rate=0.0)}
    point = load_point(n=5).model_copy(update={"cached": used, "timing_faults": ()})
    assert list(load_warnings(load_report(point))) == [
        "hybrid at 20/s: dense had 75.0% of 4 results in its cache",
        "hybrid at 20/s: reranker had 0.0% of 200 results in its cache",
    ]


def test_documents_that_were_loaded_meanwhile_have_a_table() -> None:
    loading = LoadingFigures(documents=1_280, seconds=64.0, documents_a_second=20.0)
    point = load_point(n=5).model_copy(update={"loading": loading})
    rendered = render_loading(load_report(load_point(n=5), point))
    assert [cell.strip() for cell in rendered.splitlines()[-1].split("|")[1:-1]] == [
        "hybrid", "20/s while loading", "1280", "64", "20.0",
    ]  # fmt: skip
    assert render_loading(load_report(load_point(n=5))) == ""
