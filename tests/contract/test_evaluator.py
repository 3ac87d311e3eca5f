"""The evaluator against a gateway that keeps (or breaks) the wire's promises."""

import json
from pathlib import Path

import pytest

from evaluator.client.client import GatewayError, connected
from evaluator.commands import options
from evaluator.commands.options import wait_until_ready
from evaluator.datasets.reader import DatasetRecord
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.report.evaluation import ingest_step, rank_step
from evaluator.runs.answers import read_answers
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import dataset_of, load_dataset
from retrieval_client import loading
from retrieval_client.loading import BackendLoad
from services.chassis.errors import Conflict, DeadlineExceeded, Overloaded, Unavailable
from services.contracts.pipelines import Pipeline, Rerank, Retrieve
from services.contracts.query import Degradation, Reason
from services.contracts.retrieval import DEFAULT_BEAM
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import evaluated, planned, reached


async def test_an_evaluation_leaves_a_report_that_holds_what_was_asked_for(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    report, folder = await evaluated(stub, experiment, tmp_path)
    content = json.loads((tmp_path / "runs" / "latest" / "report.json").read_text())
    assert content["dataset"] == "shop"
    assert content["engine"] == {"lexical": "edge", "dense": "qdrant"}
    outcome = content["pipelines"]["bm25"]
    assert set(outcome["quality"]) == {"nDCG@10", "MRR@10", "MAP", "Recall@100", "P@10", "R_cap@100", "judged@10"}
    # q1 perfect, q2 perfect, q3 has no positive, q4 finds its one.
    assert outcome["quality"]["MRR@10"] == pytest.approx(3 / 4)
    assert outcome["quality"]["Recall@100"] == pytest.approx((1 + 1 + 0 + 1) / 4)
    assert set(outcome["latency_ms"]) >= {"p50", "p95", "p99", "n"}
    assert outcome["latency_ms"]["n"] == 4
    assert outcome["latency_ms"]["p99"] is None
    assert (outcome["queries"], outcome["judged"], outcome["errors"], outcome["degraded"]) == (4, 4, 0, 0)
    assert (outcome["errors_by_kind"], outcome["warmup"], outcome["excluded_self"]) == ({}, 1, 1)
    assert (folder.path / outcome["run_file"]).is_file()
    assert report.valid
    assert report.manifest.backends["dense"].engine == "qdrant"
    assert "nDCG@10" in (folder.path / "report.md").read_text()


async def test_the_answers_keep_id_and_score_of_every_hit_in_the_order_of_the_run_file(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    _, folder = await evaluated(stub, experiment, tmp_path)
    records = [record for record in read_answers(folder.answers("bm25")) if record.phase == "measured"]
    assert {record.query: record.ranking for record in records}["q1"] == (("d1", 2.0), ("d2", 1.0))
    lines = [line.split("\t") for line in folder.run_file("bm25").read_text().splitlines()]
    assert [(record.query, name) for record in records for name in record.ids] == [(line[0], line[2]) for line in lines]


async def test_a_query_never_finds_itself(stub: GatewayStub, experiment: Experiment, tmp_path: Path) -> None:
    _, folder = await evaluated(stub, experiment, tmp_path)
    lines = folder.run_file("bm25").read_text().splitlines()
    assert [line.split("\t")[2] for line in lines if line.startswith("q4\t")] == ["d3"]
    assert {request.exclude_ids for request in stub.searches if request.query == "saddle springs squeak"} >= {("q4",)}


async def test_lost_queries_count_as_zero_and_make_the_run_invalid(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    stub.failing_queries = {"red bell": Unavailable("gone"), "steel": DeadlineExceeded("slow")}
    report, _ = await evaluated(stub, experiment, tmp_path)
    outcome = report.pipelines["bm25"]
    assert outcome.quality["MRR@10"] == pytest.approx(2 / 4)
    assert (outcome.errors, outcome.errors_by_kind) == (2, {"unavailable": 1, "timeout": 1})
    assert (outcome.queries, outcome.latency_ms.n) == (4, 2)
    assert not report.valid
    assert report.warnings[0] == "bm25: LOST 2 of 4 queries (timeout 1, unavailable 1); they count as 0"


async def test_few_judgments_are_remarked_on_and_leave_a_run_valid(stub: GatewayStub, tmp_path: Path) -> None:
    experiment = planned(tmp_path, pipelines=["bm25"])
    judged = "q1\td2\t1\nq2\td1\t1\nq3\td1\t0\nq4\td3\t1\n" + "".join(f"q1\tq{at}\t0\n" for at in range(1, 5))
    (tmp_path / "shop" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    report, folder = await evaluated(stub, experiment, tmp_path)
    (remark,) = report.warnings
    assert remark.startswith("judged@10 is below 0.5 (bm25 0.38)")
    assert report.valid
    assert remark in (folder.path / "report.md").read_text()


async def test_degraded_answers_are_counted_and_make_the_run_invalid(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    stub.degraded_queries = {"red bell"}
    report, _ = await evaluated(stub, experiment, tmp_path)
    outcome = report.pipelines["hybrid"]
    assert (outcome.degraded, outcome.degraded_by_stage, outcome.errors) == (1, {"dense: timeout": 1}, 0)
    assert not report.valid


@pytest.mark.parametrize(
    ("deadline_ms", "reason", "valid"),
    [(2_000, "deadline", True), (2_000, "unreachable", False), (60_000, "deadline", False)],
)
async def test_a_run_with_the_deadline_of_an_app_tells_the_share_of_candidates_that_were_scored(
    stub: GatewayStub, tmp_path: Path, deadline_ms: int, reason: Reason, valid: bool
) -> None:
    reranking = [Retrieve(kind="retrieve", backend="lexical"), Rerank(kind="rerank", id="rerank", backend="reranker")]
    pipelines = [Pipeline(name="again", stages=tuple(reranking))]
    stub.degraded_queries = {"red bell"}
    stub.degradation = Degradation(stage="rerank", reason=reason, detail="late", done=1, of=5)
    experiment = planned(tmp_path, pipelines=pipelines, deadline_ms=deadline_ms)
    report, folder = await evaluated(stub, experiment, tmp_path)
    assert report.pipelines["again"].reranked_share == pytest.approx((3 + 1 / 5) / 4)
    assert report.valid == valid
    assert ("again scored 80%" in (folder.path / "report.md").read_text()) == (deadline_ms == 2_000)


async def test_an_answer_that_breaks_the_wires_promises_is_an_error_not_a_ranking(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    stub.repeats_first_hit = True
    report, _ = await evaluated(stub, experiment, tmp_path)
    assert report.pipelines["bm25"].errors_by_kind == {"bad_answer": 4}
    assert report.pipelines["bm25"].quality["nDCG@10"] == 0


async def test_ranking_recalls_what_loading_found_out_about_the_dataset_unless_it_changed(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "runs", experiment)
    async with reached(stub) as client:
        await ingest_step(client, folder)
    read = folder.read("dataset.json", DatasetRecord)
    assert dataset_of(folder).counts == read.counts == load_dataset(experiment).counts
    assert folder.read("dataset.json", DatasetRecord) == read
    with (tmp_path / "shop" / "queries.jsonl").open("a") as queries:
        queries.write('{"_id": "q6", "text": "a sixth"}\n')
    assert dataset_of(folder).counts.queries == read.counts.queries + 1
    assert folder.read("dataset.json", DatasetRecord).counts.queries == read.counts.queries + 1


async def test_a_corpus_that_changes_while_it_is_loaded_is_not_published(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    dataset = load_dataset(experiment)
    with (tmp_path / "shop" / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "late", "text": "a late bell"}\n')
    async with reached(stub) as client:
        with pytest.raises(EvaluationError, match=r"corpus\.jsonl changed after it was checked"):
            await ingest(client, experiment, dataset)
    assert stub.live is None


async def test_a_preset_goes_inline_into_the_lexical_pipelines_and_is_reported(
    stub: GatewayStub, tmp_path: Path
) -> None:
    experiment = planned(tmp_path, preset="anserini-flat", pipelines=["bm25", "dense"])
    report, _ = await evaluated(stub, experiment, tmp_path)
    assert report.valid
    assert report.pipelines["bm25"].preset == "anserini-flat"
    assert report.pipelines["dense"].preset is None
    sent = [request.pipeline for request in stub.searches if request.pipeline != "dense"]
    firsts = [item.stages[0] if isinstance(item, Pipeline) else item for item in sent]
    assert {one.preset if isinstance(one, Retrieve) else one for one in firsts} == {
        "anserini-flat", None,  # None: the inline pipelines of the recall measurement
    }  # fmt: skip


async def test_a_preset_that_the_collection_does_not_serve_is_refused_with_those_it_does(
    stub: GatewayStub, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, preset="anserini-flat"))
    async with reached(stub) as client:
        loaded = planned(tmp_path, presets=["beir"])
        await ingest(client, loaded, load_dataset(loaded))
        with pytest.raises(EvaluationError, match=r"shop@1.*beir.*'anserini-flat'"):
            await rank_step(client, folder)


async def test_a_preset_where_inline_pipelines_are_off_is_refused_before_anything_is_measured(
    stub: GatewayStub, tmp_path: Path
) -> None:
    stub.inline = False
    with pytest.raises(EvaluationError, match=r"bm25: HTTP 422: "):
        await evaluated(stub, planned(tmp_path, preset="anserini-flat"), tmp_path)


async def test_recall_of_the_vector_search_stands_beside_what_is_indexed(stub: GatewayStub, experiment: Experiment, tmp_path: Path) -> None:  # noqa: E501  # fmt: skip
    stub.approximate_misses = 1
    report, _ = await evaluated(stub, experiment, tmp_path)
    measured = report.vector_recall["dense"]
    assert (measured.vectors, measured.indexed, measured.top, measured.queries) == (6, 2, 100, 4)
    assert measured.recall is not None
    assert 0 < measured.recall < 1
    assert measured.beam == DEFAULT_BEAM


async def test_a_run_without_a_vector_leg_tells_nothing_of_vector_recall(stub: GatewayStub, tmp_path: Path) -> None:
    report, _ = await evaluated(stub, planned(tmp_path, pipelines=["bm25"]), tmp_path)
    assert report.vector_recall == {}


async def test_recall_is_measured_with_the_largest_top_and_beam_that_an_arm_searches_with(
    stub: GatewayStub, tmp_path: Path
) -> None:
    legs = [
        Retrieve(kind="retrieve", backend="dense", top=200, beam=400),
        Retrieve(kind="retrieve", backend="dense", top=20),
        Retrieve(kind="retrieve", backend="dense", top=900, exact=True),
        Retrieve(kind="retrieve", backend="lexical", top=800),
    ]
    pipelines = [Pipeline(name=f"leg{number}", stages=(leg,)) for number, leg in enumerate(legs)]
    report, _ = await evaluated(stub, planned(tmp_path, pipelines=pipelines), tmp_path)
    assert (report.vector_recall["dense"].top, report.vector_recall["dense"].beam) == (200, 400)


async def test_without_inline_pipelines_there_is_no_recall_figure_but_a_reason(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    stub.inline = False
    report, _ = await evaluated(stub, experiment, tmp_path)
    assert report.vector_recall["dense"].recall is None
    assert "switched off" in str(report.vector_recall["dense"].reason)


async def test_loading_twice_indexes_and_encodes_nothing_the_second_time(
    stub: GatewayStub, experiment: Experiment
) -> None:
    async with reached(stub) as client:
        first = await ingest(client, experiment, load_dataset(experiment))
        second = await ingest(client, experiment, load_dataset(experiment))
    assert first.backends["dense"] == BackendLoad(indexed=6, encoded=6)
    assert second.backends["dense"] == BackendLoad(unchanged=6)
    assert (first.documents, first.stripped_characters, first.created, second.created) == (6, 1, True, False)


async def test_patience_has_an_end_and_says_how_to_go_on(
    stub: GatewayStub, experiment: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "PATIENCE_S", 0.1)
    stub.failing_loads = [Overloaded("full") for _ in range(100)]
    async with reached(stub) as client:
        with pytest.raises(EvaluationError, match=r"given up: HTTP 429: full.*run ingest again"):
            await ingest(client, experiment, load_dataset(experiment))


async def test_documents_that_found_no_room_are_sent_again(stub: GatewayStub, experiment: Experiment) -> None:
    stub.to_send_again = [{"d1", "d3"}, {"d3"}]
    async with reached(stub) as client:
        report = await ingest(client, experiment, load_dataset(experiment))
    assert (report.retries, report.documents) == (2, 6)


async def test_counts_that_disagree_end_the_load(stub: GatewayStub, experiment: Experiment) -> None:
    stub.reports_one_less = True
    async with reached(stub) as client:
        with pytest.raises(EvaluationError, match=r"6 documents, .*\{'published': 5\}"):
            await ingest(client, experiment, load_dataset(experiment))


async def test_a_conflict_is_not_repeated(stub: GatewayStub, experiment: Experiment) -> None:
    stub.failing_loads = [Conflict("made by something else")]
    async with reached(stub) as client:
        with pytest.raises(GatewayError, match="made by something else"):
            await ingest(client, experiment, load_dataset(experiment))


async def test_readiness_is_waited_for_and_its_absence_explained(
    stub: GatewayStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "READY_POLL_S", 0.001)
    stub.ready_after = 2
    async with reached(stub) as client:
        await wait_until_ready(client, 10)
        stub.ready_after = 10**6
        with pytest.raises(EvaluationError, match="lexical"):
            await wait_until_ready(client, 0)


async def test_who_forgot_to_start_a_gateway_is_told_at_once_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    async with connected("http://127.0.0.1:9") as client:
        with pytest.raises(EvaluationError, match="was not ready within 0 s"):
            await wait_until_ready(client, 0.4)  # a busy machine needs some of it
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1, told
    assert all(part in told[0] for part in ("at most 0 s", "http://127.0.0.1:9", "--gateway")), told
    assert "is the gateway up (`make up` starts one)?" in told[0]


async def test_ingest_alone_does_not_move_latest(stub: GatewayStub, experiment: Experiment, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", experiment)
    async with reached(stub) as client:
        await ingest_step(client, folder)
    assert not (tmp_path / "runs" / "latest").exists()
    assert RunFolder.newest(tmp_path / "runs") == folder.path
