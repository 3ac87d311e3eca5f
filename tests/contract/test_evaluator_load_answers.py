"""The answers that a load keeps have the nDCG@10 that it tells, as trec_eval computes it."""

import asyncio
import math
from pathlib import Path

import pytest
import pytrec_eval
from fastapi import Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from evaluator.client.client import connected
from evaluator.evaluation import ingest_step
from evaluator.load.load_step import load_step
from evaluator.load.page.tables import load_warnings
from evaluator.load.sending.samples import LoadSample, read_samples
from evaluator.metrics.quality import Grades
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.prepared_run import load_dataset
from services.chassis.errors import Overloaded, Unavailable
from tests.support.around import around
from tests.support.gateway_stub import GatewayStub
from tests.support.served import served
from tests.support.small_runs import planned


def ndcg_by_trec_eval(judgments: Grades, samples: list[LoadSample]) -> float:
    """Returns the mean nDCG@10 of requests, each a query of its own; a late or lost one has an empty ranking."""
    judged = {str(at): dict(judgments[sample.query]) for at, sample in enumerate(samples)}
    shown = {
        str(at): {name: float(len(sample.ids) - place) for place, name in enumerate(sample.ids)}
        for at, sample in enumerate(samples)
        if sample.error is None and not sample.late and sample.ids
    }
    found = pytrec_eval.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(shown)
    return math.fsum(figures["ndcg_cut_10"] for figures in found.values()) / len(samples)


async def test_trec_eval_finds_the_same_ndcg_in_the_kept_answers_with_late_and_lost_ones_as_empty(
    tmp_path: Path,
) -> None:
    # Turned round, a ranking is neither perfect nor worthless.
    app = GatewayStub(failing_queries={"oil chain": Unavailable("gone")}, reverses_from_top=1).app

    @around(app)
    async def answer_some_late(request: Request, answer: RequestResponseEndpoint) -> Response:
        late = request.url.path.endswith("/search") and request.headers.get("x-request-id", "").endswith(("0", "5"))
        await asyncio.sleep(0.7 * late)
        return await answer(request)

    traffic = {"rates": [60], "seconds": 1.5, "warmup_seconds": 0, "deadline_ms": 500}
    experiment = planned(tmp_path, load=traffic, pipelines=["bm25"])
    folder = RunFolder.create(tmp_path / "runs", experiment)
    with served(app) as gateway:
        async with connected(gateway) as client:
            await ingest_step(client, folder)
            (point,) = (await load_step(client, folder)).points
    samples = list(read_samples(folder.path / point.files["samples"]))
    assert point.counts.late > 0
    assert point.counts.failed > 0
    expected = ndcg_by_trec_eval(load_dataset(experiment).judgments, samples)
    assert 0 < expected < point.counts.answered / point.counts.requests
    assert point.quality.ndcg_at_10 == pytest.approx(expected, abs=1e-9)


async def test_a_load_tells_how_long_refusals_took(tmp_path: Path) -> None:
    app = GatewayStub(failing_queries={"oil chain": Overloaded("busy")}).app
    experiment = planned(tmp_path, load={"rates": [60], "seconds": 1.0, "warmup_seconds": 0}, pipelines=["bm25"])
    folder = RunFolder.create(tmp_path / "runs", experiment)
    with served(app) as gateway:
        async with connected(gateway) as client:
            await ingest_step(client, folder)
            report = await load_step(client, folder)
    (point,) = report.points
    refused = [one.refused_ms for one in read_samples(folder.path / point.files["samples"]) if one.error is not None]
    assert point.refusal_ms is not None
    assert point.counts.errors_by_kind == {"overloaded": len(refused)}
    assert point.refusal_ms.n == len(refused) > 0
    assert point.refusal_ms.max.unchecked_ms == max(one for one in refused if one is not None)
    assert any("requests were refused, after p50 " in line for line in load_warnings(report))
