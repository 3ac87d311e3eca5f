"""Timed requests ask for few hits; metrics that look deeper are of a second request, which must begin as the first."""

from pathlib import Path

import pytest

from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import evaluated, planned

METRICS = ["P@1", "Recall@100", "MAP"]
MEASURED = {"red bell", "oil chain", "steel", "saddle springs squeak"}


def tops_sent(stub: GatewayStub) -> list[int]:
    """The hits that each request of a judged query to a named pipeline asked for, in sending order."""
    return [sent.top for sent in stub.searches if sent.query in MEASURED and isinstance(sent.pipeline, str)]


async def test_every_query_is_timed_with_few_hits_before_any_is_asked_for_more(
    stub: GatewayStub, tmp_path: Path
) -> None:
    report, folder = await evaluated(stub, planned(tmp_path, top=1, metrics=METRICS), tmp_path)
    assert tops_sent(stub) == [1] * 8 + [100] * 8
    assert report.valid
    assert (report.timed_top, report.depth) == (1, 100)
    outcome = report.pipelines["bm25"]
    assert (outcome.queries, outcome.deep, outcome.deep_differs, outcome.latency_ms.n) == (4, 4, 0, 4)
    assert len([line for line in folder.run_file("bm25").read_text().splitlines() if line.startswith("q1\t")]) == 2
    assert "use a second, untimed request for 100 hits" in (folder.path / "report.md").read_text()


@pytest.mark.parametrize("given", [{"top": 5, "metrics": ["nDCG@5", "P@1"]}, {"top": 50, "depth": 5}])
async def test_one_request_is_enough_where_no_metric_looks_deeper(
    stub: GatewayStub, tmp_path: Path, given: dict[str, object]
) -> None:
    report, folder = await evaluated(stub, planned(tmp_path, **given), tmp_path)
    assert tops_sent(stub) == [5] * 8
    assert (report.timed_top, report.depth, report.pipelines["bm25"].deep) == (5, 5, 0)
    assert "second" not in (folder.path / "report.md").read_text()


async def test_deeper_answers_that_begin_otherwise_or_are_lost_make_the_run_invalid(
    stub: GatewayStub, tmp_path: Path
) -> None:
    experiment = planned(tmp_path, top=1, metrics=METRICS)
    before, _ = await evaluated(stub, experiment, tmp_path)
    timed = before.pipelines["bm25"].quality["P@1"]
    stub.reverses_from_top = 100
    report, _ = await evaluated(stub, experiment, tmp_path)
    outcome = report.pipelines["bm25"]
    assert not report.valid
    assert outcome.deep_differs > 0
    assert report.warnings[0] == (
        f"bm25: {outcome.deep_differs} of 4 answers had OTHER first hits when 100 hits were requested instead of 1"
    )
    assert outcome.quality["P@1"] == timed
    stub.fails_from_top = 100
    report, _ = await evaluated(stub, experiment, tmp_path)
    outcome = report.pipelines["bm25"]
    assert not report.valid
    assert (outcome.errors, outcome.errors_by_kind) == (4, {"unavailable (deep)": 4})
    assert outcome.latency_ms.n == 4
    assert outcome.quality == {"P@1": timed, "Recall@100": 0, "MAP": 0}
    assert [outcome.figures[metric].lost for metric in METRICS] == [0, 4, 4]


async def test_documents_tied_below_the_timed_hits_are_in_the_bounds_of_their_metrics(
    stub: GatewayStub, tmp_path: Path
) -> None:
    experiment = planned(tmp_path, top=1, metrics=METRICS)
    with (tmp_path / "shop" / "corpus.jsonl").open("a") as corpus:  # tied with d4, which is relevant, and before it
        corpus.write('{"_id": "a0", "text": "oil chain"}\n')
    deep, _ = await evaluated(stub, experiment, tmp_path)
    whole, _ = await evaluated(stub, planned(tmp_path, top=100, metrics=METRICS), tmp_path)
    ties = deep.pipelines["bm25"].figures["P@1"].ties
    assert ties is not None
    assert (ties.queries, ties.best - ties.worst) == (1, 0.25)
    for arm, outcome in whole.pipelines.items():
        assert deep.pipelines[arm].figures == outcome.figures
