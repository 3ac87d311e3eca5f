"""What processes and pipelines cost: readings of three dialects, differences, and a whole run over real sockets."""

import json
import ssl
import time
from pathlib import Path

import pytest
from fastapi import FastAPI, Response

from evaluator.client.client import connected
from evaluator.errors import EvaluationError
from evaluator.machine.process_costs import (
    STARTED_ANEW,
    ProcessCost,
    ProcessReading,
    costs_between,
    mean_cost,
    parse_exposition,
    parse_processes,
    process_reader,
    summed_costs,
)
from evaluator.report.evaluation import evaluate, rank_step
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.pipeline_costs import CostReport, index_bytes
from services.chassis.instruments import Instruments
from services.contracts.collections import CollectionDeclaration, CollectionState, VectorState
from services.contracts.pipelines import Pipeline
from tests.support.certificates import Certificates
from tests.support.gateway_stub import GatewayStub
from tests.support.recorded_requests import recording
from tests.support.served import served
from tests.support.small_runs import planned

QDRANT = "# TYPE memory_resident_bytes gauge\nmemory_resident_bytes 183500800\n"
NODES = (
    '{"cluster_name": "c", "nodes": {"n1": {"process": {"cpu": {"percent": 3, "total_in_millis": 61250}}, "jvm": {'
    '"timestamp": 1700000060000, "uptime_in_millis": 60000, '
    '"mem": {"heap_committed_in_bytes": 1073741824, "non_heap_committed_in_bytes": 150000000}}}}}'
)


def test_processes_are_named_with_their_urls() -> None:
    assert parse_processes("dense=http://127.0.0.1:8002/, elasticsearch=https://es:9200") == {
        "dense": "http://127.0.0.1:8002",
        "elasticsearch": "https://es:9200",
    }
    assert parse_processes("") == {}


@pytest.mark.parametrize("text", ["dense", "dense=", "=http://a", "dense=8002", "a=http://b,a=http://c", "a=file:///b"])
def test_what_names_no_process_is_refused(text: str) -> None:
    with pytest.raises(EvaluationError, match=r"^--processes: "):
        parse_processes(text)


def test_our_services_tell_cpu_and_memory() -> None:
    reading = parse_exposition(Instruments().exposition().decode())
    assert reading.cpu_s is not None
    assert reading.cpu_s > 0
    assert (reading.memory_bytes or 0) > 10_000_000
    assert reading.reason is None
    assert reading.started_s is not None
    assert 0 < time.time() - reading.started_s < 3_600 * 24


def test_a_qdrant_server_tells_its_memory_and_says_that_cpu_is_missing() -> None:
    assert parse_exposition(QDRANT) == ProcessReading(None, 183_500_800, "it does not report its CPU time")


@pytest.mark.parametrize(
    ("before", "after", "cpu_ms", "reason"),
    [
        (ProcessReading(10.0, 5), ProcessReading(10.25, 7), 250.0, None),
        (ProcessReading(10.0, 5), ProcessReading(0.5, 7), None, STARTED_ANEW),
        (ProcessReading(10.0, 5, started_s=100.0), ProcessReading(11.0, 7, started_s=160.0), None, STARTED_ANEW),
        # Two clocks tell one start a little apart.
        (ProcessReading(1.0, 5, started_s=100.0), ProcessReading(1.5, 7, started_s=100.002), 500.0, None),
    ],
)
def test_cpu_is_the_difference_unless_the_process_was_started_anew_and_memory_the_second_reading(
    before: ProcessReading, after: ProcessReading, cpu_ms: float | None, reason: str | None
) -> None:
    cost = costs_between({"a": before}, {"a": after})["a"]
    assert (cost.cpu_ms, cost.memory_bytes, cost.reason) == (cpu_ms, 7, reason)


def test_costs_of_several_spans_add_up_and_one_that_misses_leaves_the_process_without() -> None:
    spans = [
        {"a": ProcessCost(cpu_ms=10.0, memory_bytes=1), "b": ProcessCost(cpu_ms=None, memory_bytes=1, reason="no")},
        {"a": ProcessCost(cpu_ms=30.0, memory_bytes=2), "b": ProcessCost(cpu_ms=5.0, memory_bytes=3)},
    ]
    summed = summed_costs(spans)
    assert summed["a"] == ProcessCost(cpu_ms=40.0, memory_bytes=2)
    assert summed["b"] == ProcessCost(cpu_ms=None, memory_bytes=3, reason="no")
    cost = mean_cost(summed, queries=8, lost=1, seconds=2.0)
    assert (cost.processes["a"].cpu_ms, cost.cpu_ms) == (5.0, None)


async def test_statistics_of_elasticsearch_and_failures_are_read() -> None:
    app = FastAPI()

    @app.get("/_nodes/stats/process,jvm")
    def nodes() -> Response:
        return Response(NODES, media_type="application/json")

    @app.get("/broken/metrics")
    def broken() -> Response:
        return Response('a{b="c', media_type="text/plain")

    with served(app) as url:
        named = {"elasticsearch": url, "broken": f"{url}/broken", "absent": f"{url}/no", "down": "http://127.0.0.1:9"}
        async with process_reader(named) as read:
            readings = await read()
    assert readings["elasticsearch"] == ProcessReading(61.25, 1_223_741_824, started_s=1_700_000_000.0)
    assert readings["broken"].reason == "its statistics cannot be read"
    assert readings["absent"].reason == "HTTP 404"
    assert readings["down"].reason
    assert readings["down"].cpu_s is None


async def test_a_run_reports_what_each_pipeline_costs_and_a_later_one_without_processes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.steps.pipeline_costs.LEAST_BLOCK_S", 0.0)
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path))
    with served(GatewayStub().app) as url:
        async with connected(url) as client:
            report = await evaluate(client, folder, processes={"gateway": url, "gone": "http://127.0.0.1:9"})
            page = (folder.path / "report.md").read_text(encoding="utf-8")
            await rank_step(client, folder)
    for outcome in report.pipelines.values():
        assert outcome.cost is not None
        assert (outcome.cost.queries, outcome.cost.lost) == (100, 0)
        assert (outcome.cost.processes["gateway"].cpu_ms or 0) > 0.1
        assert outcome.cost.cpu_ms is None  # one of the processes is not known
        assert outcome.cost.processes["gone"].reason
        assert len(outcome.warmup_ms) == outcome.warmup
    assert "## Cost" in page
    assert folder.read("costs.json", CostReport).pipelines == {}


def test_the_index_of_a_pipeline_is_that_of_its_retrieves_and_the_texts_that_it_re_ranks() -> None:
    def state(*, vectors: bool) -> CollectionState:
        return CollectionState(
            generation="c@1", published=True, documents=2, engine="e", stamp={}, declaration=CollectionDeclaration(),
            vectors=VectorState(vectors=2, indexed=0) if vectors else None,
        )  # fmt: skip

    backends = {"lexical": state(vectors=False), "dense": state(vectors=True)}
    sizes = {"lexical": 1_000, "dense": 20}
    retrieve, rerank = {"kind": "retrieve", "backend": "dense"}, {"kind": "rerank", "backend": "reranker"}
    plain = Pipeline.model_validate({"name": "plain", "stages": [retrieve]})
    reranking = Pipeline.model_validate({"name": "reranking", "stages": [retrieve, rerank]})
    assert (index_bytes(plain, backends, sizes), index_bytes(reranking, backends, sizes)) == (20, 1_020)
    late = Pipeline.model_validate({"name": "late", "stages": [retrieve, {**rerank, "backend": "late_interaction"}]})
    stored = {**backends, "late_interaction": state(vectors=True)}
    assert index_bytes(late, stored, {**sizes, "late_interaction": 300}) == 320
    assert index_bytes(plain, backends, {"dense": None}) is None
    assert index_bytes(None, backends, sizes) is None


async def test_an_elasticsearch_is_asked_with_its_own_key_and_authority_and_a_service_with_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack, engine = Certificates(tmp_path, "stack"), Certificates(tmp_path, "engine")
    contexts = []
    for made in (stack, engine):
        pair = made.issue()
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        contexts[-1].load_cert_chain(pair.cert, pair.key)
    monkeypatch.setenv("GATEWAY_API_KEY", "rs_key")
    monkeypatch.setenv("STACK_CA_FILE", str(stack.ca_file))
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", str(engine.ca_file))
    (tmp_path / "key").write_text("c2VjcmV0")
    monkeypatch.setenv("ELASTICSEARCH_API_KEY_FILE", str(tmp_path / "key"))
    async with (
        recording(context=contexts[0]) as service,
        recording(body=json.loads(NODES), context=contexts[1]) as elasticsearch,
    ):
        processes = {"dense": service.url, "elasticsearch": elasticsearch.url, "stranger": elasticsearch.url}
        async with process_reader(processes) as read:
            readings = await read()
    assert readings["elasticsearch"].cpu_s == 61.25
    assert elasticsearch.authorizations() == {"ApiKey c2VjcmV0"}
    assert service.authorizations() == {None}
    assert "certificate verify failed" in (readings["stranger"].reason or "")


async def test_the_key_of_an_elasticsearch_is_not_sent_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", "c2VjcmV0")
    with pytest.raises(EvaluationError, match="ELASTICSEARCH_API_KEY"):
        async with process_reader({"elasticsearch": "http://elasticsearch:9200"}):
            pass


async def test_an_authority_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(EvaluationError, match=r"^ELASTICSEARCH_CA_FILE: .*none\.pem"):
        async with process_reader({"elasticsearch": "https://elasticsearch:9200"}):
            pass
