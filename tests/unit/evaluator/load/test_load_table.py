"""The sentences beside the table of a load."""

from evaluator.cached_results import CacheUse
from evaluator.load.table import load_warnings
from tests.support.load_points import load_point, load_report


def test_hit_rates_stand_beside_the_table() -> None:
    used = {"dense": CacheUse(hits=3, of=4, rate=0.75), "reranker": CacheUse(hits=0, of=200, rate=0.0)}
    point = load_point(n=5).model_copy(update={"cached": used, "timing_faults": ()})
    assert list(load_warnings(load_report(point))) == [
        "hybrid at 20/s: dense had 75.0% of 4 results in its cache",
        "hybrid at 20/s: reranker had 0.0% of 200 results in its cache",
    ]
