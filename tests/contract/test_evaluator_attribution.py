"""Attribution and replay over real services: every loss has a stage, and a replay answers as the gateway does."""

import asyncio
import json
import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from fastapi import FastAPI
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.attribution.attributing import attribute_step, attribution
from evaluator.attribution.attribution_report import AttributionReport
from evaluator.attribution.candidates import candidates_of
from evaluator.attribution.losses import FATES
from evaluator.client.client import connected
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, bundled_directory
from evaluator.replay.points import varied_pipelines
from evaluator.replay.replayed import replayed
from evaluator.replay.tuning import replay_step
from evaluator.report.evaluation import evaluate, quality_step
from evaluator.report.report_step import report_step
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.trec_runs import read_run
from evaluator.steps.arms import Arm, search_request
from evaluator.steps.prepared_run import prepare_run
from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.contracts.pipelines import Pipeline
from services.dense.app import build_app as build_dense
from services.dense.settings import DenseSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from services.reranker.app import build_app as build_reranker
from services.reranker.settings import RerankerSettings
from tests.support.evaluator_service import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.processes import free_port
from tests.support.served import served

PIPELINES = ("bm25", "dense", "hybrid", "bm25-rerank", "hybrid-rerank")
COLLECTION = bundled_directory().parent / "collections" / "bicycle-workshop"


@dataclass(frozen=True)
class Stack:
    """A running stack, and a gateway over the same services whose re-ranker is gone."""

    gateway: str
    without_reranker: str


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("stack")
    apps = {
        "lexical": build_lexical(LexicalSettings(directory=folder / "lexical")),
        "dense": build_dense(DenseSettings(directory=folder / "dense", encoder="hashing")),
        "reranker": build_reranker(RerankerSettings(scorer="overlap")),
    }
    with ExitStack() as running:
        urls = {name: running.enter_context(served(app)) for name, app in apps.items()}
        yield Stack(
            running.enter_context(served(gateway_of(urls))),
            running.enter_context(served(gateway_of({**urls, "reranker": f"http://127.0.0.1:{free_port()}"}))),
        )


def gateway_of(urls: Mapping[str, str]) -> FastAPI:
    backends = {name: BackendAddress.model_validate({"family": name, "url": url}) for name, url in urls.items()}
    return build_gateway(GatewaySettings(backends=backends))


@dataclass(frozen=True)
class AttributedRun:
    """A run and its attribution."""

    path: Path
    found: AttributionReport


@pytest.fixture(scope="session")
def run(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> AttributedRun:
    """Evaluated and attributed once; tests change copies."""
    experiment = Experiment(
        name="small", dataset=str(COLLECTION), pipelines=PIPELINES, depth=50, queries=4, recall_queries=0, warmup=0
    )
    folder = RunFolder.create(tmp_path_factory.mktemp("runs"), experiment)

    async def attributed() -> AttributionReport:
        async with connected(stack.gateway) as client:
            await evaluate(client, folder)
            return await attribute_step(client, folder)

    return AttributedRun(folder.path, asyncio.run(attributed()))


@pytest.fixture
def folder(run: AttributedRun, tmp_path: Path) -> RunFolder:
    """A copy of the attributed run."""
    return RunFolder(Path(shutil.copytree(run.path, tmp_path / "runs" / run.path.name)))


@pytest.fixture
def more(folder: RunFolder, tmp_path: Path) -> Path:
    """Judgments that make the first document of every answer of bm25 relevant."""
    path = tmp_path / "more.qrels"
    first = {query: ids[0] for query, ids in read_run(folder.run_file("bm25")).items()}
    path.write_text("".join(f"{query}\t0\t{document}\t2\n" for query, document in first.items()))
    return path


def test_fates_add_up_to_the_relevant_documents_and_steps_to_the_figure(run: AttributedRun) -> None:
    assert set(run.found.arms) == set(PIPELINES)
    for name, arm in run.found.arms.items():
        assert list(arm.fates) == list(FATES)
        assert sum(arm.fates.values()) == arm.relevant > 0
        assert sum(step.added for step in arm.waterfall) == pytest.approx(arm.ndcg, abs=1e-9)
        assert (arm.ndcg, arm.otherwise, arm.lost, arm.degraded) == (arm.run_ndcg, 0, 0, 0)
        lines = (run.path / "attribution" / f"{name}.jsonl").read_text().splitlines()
        assert [json.loads(line)["fate"] for line in lines].count("found") == arm.fates["found"]
    assert "<svg" in (run.path / "attribution" / "fates.svg").read_text()
    page = (run.path / "attribution.md").read_text()
    assert "| hybrid-rerank" in page
    assert "Judged by test.tsv of the dataset" in page


async def test_a_replay_gives_the_hits_that_the_gateway_gives(stack: Stack, folder: RunFolder) -> None:
    collected, lines = candidates_of(folder)
    pipelines = [varied.pipeline for varied in varied_pipelines(collected.pipelines, collected.top)]
    drawn = random.Random(1).sample(pipelines, 15)
    compared = 0
    async with connected(stack.gateway) as client:
        ready = await prepare_run(client, folder)
        for line in lines:
            answers = replayed(line, drawn, collected.top)
            for at, pipeline in enumerate(drawn):
                request = search_request(Arm("p", pipeline, pipeline, None), ready.dataset, line.query, collected.top)
                asked = (await client.search(folder.experiment.target, request, caches=True)).answer
                if answers.answer(at) is not None:
                    assert tuple(hit.id for hit in asked.hits) == answers.answer(at)
                    compared += 1
    assert compared > 30


def test_a_replay_chooses_the_best_pipeline_and_writes_it(folder: RunFolder) -> None:
    report = replay_step(folder)
    assert len(report.points) > 60
    assert report.choice.tuned == max(point.mean for point in report.points)
    winner = Pipeline.model_validate(yaml.safe_load((folder.path / "replay" / "replayed.yaml").read_text()))
    assert winner.stages == report.choice.pipeline.stages


def test_attribution_and_replay_use_the_judgments_of_the_quality_and_say_so(folder: RunFolder, more: Path) -> None:
    before = folder.read("attribution.json", AttributionReport).arms["bm25"]
    quality_step(folder, added=[more])
    with pytest.raises(EvaluationError, match=r"quality\.json.*attribution\.json"):
        report_step(folder)
    report = attribution(folder)
    assert report.arms["bm25"].fates["found"] > before.fates["found"]
    assert [file.file for file in report.judgments.added] == [str(more)]
    tuned = replay_step(folder)
    assert tuned.judgments == report.judgments
    assert tuned.arms["bm25"] == pytest.approx(report.arms["bm25"].ndcg)
    report_step(folder)
    for page in ("attribution.md", "replay.md", "report.md", "report.html"):
        assert f"Judged also by {more}" in (folder.path / page).read_text()


async def test_a_run_that_is_measured_again_is_attributed_again(folder: RunFolder, more: Path) -> None:
    for command in (
        ["quality", "--run", str(folder.path), "--judgments", str(more)],
        ["report", "--run", str(folder.path)],
    ):
        assert (await asyncio.to_thread(CliRunner().invoke, app, command)).exit_code == 0
    added = folder.read("report.json", Report)
    async with evaluator(GatewayStub(), folder.path.parent) as client:
        answer = await client.post(f"/measure/{folder.name}", data={"session": ""})
        while answer.status_code == 200:
            answer = await client.get(f"/measure/{folder.name}")
    alone = folder.read("report.json", Report)
    assert answer.status_code == 303, answer.text
    assert [len(report.attribution.judgments.added) for report in (added, alone) if report.attribution] == [1, 0]


def test_added_judgments_that_changed_since_are_refused(folder: RunFolder, more: Path) -> None:
    quality_step(folder, added=[more])
    more.write_text(more.read_text().replace("\t2\n", "\t1\n"))
    with pytest.raises(EvaluationError, match=r"more\.qrels.*quality .*--judgments=/"):
        attribution(folder)
    more.unlink()
    with pytest.raises(EvaluationError, match=r"more\.qrels"):
        replay_step(folder)


async def test_documents_whose_re_ranker_was_gone_have_a_fate_of_their_own(stack: Stack, folder: RunFolder) -> None:
    (folder.path / "candidates.begun.json").unlink()
    async with connected(stack.without_reranker) as client:
        report = await attribute_step(client, folder, top=1)
    for name in ("bm25-rerank", "hybrid-rerank"):
        arm = report.arms[name]
        assert arm.degraded == report.queries
        assert arm.fates["re-ranker skipped"] > 0
        assert arm.fates["demoted by the re-ranker"] == 0
        assert sum(arm.fates.values()) == arm.relevant
        assert sum(step.added for step in arm.waterfall) == pytest.approx(arm.ndcg, abs=1e-9)
    assert report.failed > 0
    assert len(replay_step(folder).left_out) > 0


async def test_an_interrupted_collection_goes_on_where_it_stood(stack: Stack, folder: RunFolder) -> None:
    whole = (folder.path / "candidates.jsonl").read_bytes().splitlines(keepends=True)
    (folder.path / "candidates.jsonl").write_bytes(b"".join(whole[:3]) + whole[3][:100])
    with pytest.raises(EvaluationError, match=r"candidates\.jsonl"):
        attribution(folder)
    async with connected(stack.gateway) as client:
        await attribute_step(client, folder)
    again = (folder.path / "candidates.jsonl").read_bytes().splitlines(keepends=True)
    assert again[:3] == whole[:3]
    assert [json.loads(line)["query"] for line in again] == [json.loads(line)["query"] for line in whole]


def test_a_run_that_was_not_attributed_is_refused_with_the_command_to_call(folder: RunFolder) -> None:
    (folder.path / "candidates.json").unlink()
    with pytest.raises(EvaluationError, match=r"candidates\.json.*attribute"):
        replay_step(folder)


async def test_a_run_that_was_not_measured_is_refused_before_any_query(stack: Stack, folder: RunFolder) -> None:
    (folder.path / "quality.json").unlink()
    async with connected(stack.gateway) as client:
        with pytest.raises(EvaluationError, match=r"quality\.json.*quality "):
            await attribute_step(client, folder)


async def test_another_depth_is_asked_anew(stack: Stack, run: AttributedRun, folder: RunFolder) -> None:
    async with connected(stack.gateway) as client:
        three = await attribute_step(client, folder, 3)
    assert (run.found.top, three.top) == (10, 3)
    assert three.arms["bm25"].fates["found"] < run.found.arms["bm25"].fates["found"]
    lines = (folder.path / "candidates.jsonl").read_text().splitlines()
    assert {len(json.loads(line)["arms"]["bm25"]["hits"]) for line in lines} == {3}


async def test_a_query_that_failed_is_asked_again(stack: Stack, folder: RunFolder) -> None:
    path = folder.path / "candidates.jsonl"
    lost, *others = path.read_text().splitlines()
    query = json.loads(lost)["query"]
    failed = {"query": query, "arms": {name: {"error": "timeout"} for name in PIPELINES}}
    path.write_text("".join(f"{line}\n" for line in (json.dumps(failed), *others)))
    async with connected(stack.gateway) as client:
        report = await attribute_step(client, folder)
    assert [arm.lost for arm in report.arms.values()] == [0] * len(PIPELINES)
    assert json.loads(path.read_text().splitlines()[-1])["query"] == query


def test_the_command_names_the_report_as_next_and_ends_with_3_where_legs_or_scores_are_missing(
    folder: RunFolder,
) -> None:
    done = CliRunner().invoke(app, ["attribute", str(folder.path), "--offline"])
    assert (done.exit_code, f"evaluator report --run {folder.path}" in done.stderr) == (0, True)
    path = folder.path / "candidates.json"
    path.write_text(path.read_text().replace('"failed": 0', '"failed": 2'))
    done = CliRunner().invoke(app, ["attribute", str(folder.path), "--offline"])
    assert (done.exit_code, "2 requests for deep legs or scores failed" in done.stderr) == (3, True)
