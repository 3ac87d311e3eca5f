"""Steps of a run that do not fit together, and a `rank` that was interrupted."""

import asyncio
import json
from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.report.evaluation import ingest_step, quality_step, rank_step
from evaluator.report.report_step import report_step
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.prepared_run import expect_same_corpus, load_dataset, sampled_documents
from services.chassis.errors import DeadlineExceeded, Unavailable
from tests.support.gateway_stub import GatewayStub
from tests.support.load_points import load_point, load_report
from tests.support.small_runs import evaluated, planned, reached

MEASURED = {"red bell", "oil chain", "steel", "saddle springs squeak"}


@pytest.fixture
async def ingested(stub: GatewayStub, experiment: Experiment, tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "runs", experiment)
    async with reached(stub) as client:
        await ingest_step(client, folder)
    return folder


async def rank_alone(stub: GatewayStub, folder: RunFolder) -> None:
    async with reached(stub) as client:
        await rank_step(client, folder)


async def interrupted(stub: GatewayStub, folder: RunFolder, after: int) -> None:
    """Ends `rank` after as many searches, warm-up included."""
    stub.searches.clear()
    stub.hangs_after = after
    task = asyncio.create_task(rank_alone(stub, folder))
    while not stub.hanging:
        assert not task.done()
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    stub.hangs_after, stub.hanging = None, False
    stub.searches.clear()


def report_of(folder: RunFolder) -> Report:
    quality_step(folder)
    return report_step(folder)


def run_files(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder.path / "runs").iterdir())}


async def test_after_another_rank_the_report_asks_for_quality_again(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    _, folder = await evaluated(stub, experiment, tmp_path)
    stub.answers_nothing = True
    await rank_alone(stub, folder)
    with pytest.raises(EvaluationError, match=r"rank\.json.*quality\.json.*evaluator quality"):  # fmt: skip
        report_step(folder)
    assert report_of(folder).pipelines["bm25"].quality["nDCG@10"] == 0


async def test_a_file_that_changed_or_is_gone_is_named_with_the_step_that_reads_it(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    _, folder = await evaluated(stub, experiment, tmp_path)
    for changed, read, again in (
        ("experiment.json", "rank.json", "rank"),
        ("answers/bm25.jsonl", "rank.json", "rank"),
        ("quality/bm25.jsonl", "quality.json", "quality"),
    ):
        file = folder.path / changed
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        with pytest.raises(EvaluationError) as refused:
            report_step(folder)
        assert f"{changed} is not the one that {read} was made from; run `" in str(refused.value)
        assert f"evaluator {again} --run {folder.path}` again" in str(refused.value)
        file.write_bytes(content)
    folder.run_file("bm25").unlink()
    with pytest.raises(EvaluationError, match=r"runs/bm25\.trec.*rank\.json"):
        quality_step(folder)


async def test_what_was_measured_beside_an_earlier_ranking_is_not_shown_with_a_new_one(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, folder = await evaluated(stub, experiment, tmp_path)
    of_this = folder.hashes("experiment.json", "manifest.json")
    folder.write("load.json", load_report(load_point(n=5)).model_copy(update={"made_from": of_this}))
    (folder.path / "load.md").write_text("links manifest.json")
    (folder.path / "against.json").write_text("{}")
    report = report_of(folder)
    assert report.load is not None

    stub.stamp = {"schema": "2"}
    await rank_alone(stub, folder)
    said = "measured with an earlier ranking, and no longer used: load.json, against.json"
    assert said in capsys.readouterr().err.replace("\n", " ")
    assert not (folder.path / "load.md").exists()
    with pytest.raises(EvaluationError, match=r"manifest\.json .* remove load\.json"):
        report_of(folder)
    (folder.path / "load.json").unlink()
    assert report_of(folder).load is None


async def test_a_corpus_that_changed_since_it_was_loaded_is_refused(stub: GatewayStub, ingested: RunFolder) -> None:
    corpus = ingested.experiment.directory / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("brass", "tin"))
    with pytest.raises(EvaluationError, match=r"corpus.*evaluator ingest"):
        await rank_alone(stub, ingested)
    assert not stub.searches


async def test_a_collection_that_lacks_a_document_is_refused_before_the_first_query(
    stub: GatewayStub, ingested: RunFolder
) -> None:
    del stub.documents["d3"]
    with pytest.raises(EvaluationError, match="shop@1: the corpus has 6 documents, but lexical has 5, dense has 5; `"):
        await rank_alone(stub, ingested)
    assert not ingested.has("manifest.json")
    assert not stub.searches


async def test_a_collection_that_was_not_loaded_is_named_with_the_step_that_loads_it(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    with pytest.raises(
        EvaluationError, match=r"evaluator ingest .*/experiment\.json --gateway http://localhost` loads it"
    ):
        await rank_alone(stub, RunFolder.create(tmp_path / "runs", experiment))


async def test_a_collection_with_other_metadata_is_refused(stub: GatewayStub, ingested: RunFolder) -> None:
    stub.documents["d1"] = stub.documents["d1"].model_copy(update={"metadata": {"year": 2018}})
    with pytest.raises(EvaluationError, match=r"0 are missing and 1 differ.*'d1'"):
        await rank_alone(stub, ingested)


async def test_documents_too_large_for_one_answer_are_compared_in_several(
    stub: GatewayStub, ingested: RunFolder
) -> None:
    stub.most_documents_an_answer = 1
    experiment = ingested.experiment
    async with reached(stub) as client:
        view = await client.collection("shop")
        assert await expect_same_corpus(client, experiment, load_dataset(experiment), view, "ingest") == 6


async def test_without_a_document_store_the_report_says_that_only_the_number_was_compared(
    stub: GatewayStub, tmp_path: Path
) -> None:
    stub.without_lexical = True
    report, _ = await evaluated(stub, planned(tmp_path, pipelines=["dense"]), tmp_path)
    assert report.valid
    assert report.warnings == ("no backend returns documents by id: only their number was compared with the corpus",)


def test_a_sample_of_the_corpus_is_drawn_with_the_seed(tmp_path: Path) -> None:
    experiment = planned(tmp_path)
    lines = [json.dumps({"_id": f"n{number}", "text": f"text {number}"}) for number in range(1_000)]
    with (experiment.directory / "corpus.jsonl").open("a") as corpus:
        corpus.write("\n".join(lines))
    dataset = load_dataset(experiment)
    assert len(sampled_documents(dataset, 1)) == 200
    assert sampled_documents(dataset, 1) == sampled_documents(dataset, 1) != sampled_documents(dataset, 2)


async def test_after_an_interrupted_rank_the_report_names_it_and_it_begins_again(
    stub: GatewayStub, experiment: Experiment, ingested: RunFolder, tmp_path: Path
) -> None:
    _, undisturbed = await evaluated(stub, experiment, tmp_path)
    await interrupted(stub, ingested, 10)  # checks and warm-up 4, measured 6
    for step in (quality_step, report_step):
        with pytest.raises(EvaluationError, match=r"rank\.json.*evaluator rank --run"):
            step(ingested)
    await rank_alone(stub, ingested)
    assert sum(request.top == 10 for request in stub.searches if request.query in MEASURED) == 8
    assert run_files(ingested) == run_files(undisturbed)
    assert report_of(ingested).valid


async def test_after_five_timeouts_in_a_row_the_other_queries_of_a_pipeline_are_not_sent_and_count_as_lost(
    stub: GatewayStub, tmp_path: Path
) -> None:
    experiment = planned(tmp_path, pipelines=["bm25"], warmup=0)
    queries, judgments = tmp_path / "shop" / "queries.jsonl", tmp_path / "shop" / "qrels" / "test.tsv"
    for number in range(8):
        queries.write_text(queries.read_text() + f'{{"_id": "s{number}", "text": "slow {number}"}}\n')
        judgments.write_text(judgments.read_text() + f"s{number}\td1\t1\n")
    for line in queries.read_text().splitlines():
        stub.failing_queries[json.loads(line)["text"]] = DeadlineExceeded("slow")
    report, _ = await evaluated(stub, experiment, tmp_path)
    assert report.pipelines["bm25"].errors_by_kind == {"timeout": 5, "abandoned": 7}


async def test_two_processes_never_send_the_queries_of_one_run(stub: GatewayStub, ingested: RunFolder) -> None:
    with ingested.locked(), pytest.raises(EvaluationError, match="another process"):
        await rank_alone(stub, ingested)


async def test_a_warmup_of_which_nothing_was_answered_is_told(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    stub.failing_queries = {"never judged": Unavailable("gone")}
    report, _ = await evaluated(stub, experiment, tmp_path)
    assert report.valid
    assert report.warnings == tuple(
        f"{arm}: none of 1 warm-up queries was answered (unavailable 1): latency includes a cold start"
        for arm in ("bm25", "hybrid")
    )


async def test_a_fusion_by_rank_of_much_of_the_collection_is_remarked_once(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path
) -> None:
    documents = load_dataset(experiment).counts.documents
    legs = [{"kind": "retrieve", "backend": name, "top": documents // 4} for name in ("lexical", "dense")]
    deep = [legs[0], {**legs[1], "top": documents // 4 + 1}]
    stages = {"shallow": ("rrf", legs), "deep": ("rrf", deep), "by-scores": ("weighted", deep)}
    pipelines = [
        {"name": name, "stages": [{"kind": "fuse", "method": method, "inputs": inputs}]}
        for name, (method, inputs) in stages.items()
    ]
    report, _ = await evaluated(stub, planned(tmp_path, pipelines=pipelines), tmp_path)
    assert report.valid
    (remark,) = report.warnings
    assert f"{documents} documents (deep {documents // 4 + 1})" in remark


@pytest.mark.parametrize(("queries", "sample"), [(4, None), (3, 3)])
async def test_a_sample_is_one_only_when_it_leaves_queries_out(
    stub: GatewayStub, tmp_path: Path, queries: int, sample: int | None
) -> None:
    report, _ = await evaluated(stub, planned(tmp_path, queries=queries), tmp_path)
    assert report.sample == sample


def test_the_newest_of_several_runs_in_one_second_is_the_one_created_last(tmp_path: Path) -> None:
    for name in ("z", "a", "m", "a"):
        folder = RunFolder.create(tmp_path, planned(tmp_path, name=name))
        assert RunFolder.newest(tmp_path) == folder.path


def test_a_folder_named_in_whole_seconds_is_older_than_one_of_the_same_second(tmp_path: Path) -> None:
    for name in ("20260101T000000Z-x-00000000", "20260101T000000001Z-a-00000000"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "experiment.json").write_text("{}")
    assert RunFolder.newest(tmp_path).name == "20260101T000000001Z-a-00000000"
