"""Attribution and replay over real services: every loss has a stage, and a replay answers as the gateway does."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import yaml

from evaluator.attribution.losses import FATES
from evaluator.attribution.step import attribute_step, attribution
from evaluator.client import GatewayClient, connected
from evaluator.errors import EvaluationError
from evaluator.evaluation import evaluate
from evaluator.experiment import Experiment, bundled_directory
from evaluator.replay.grid import Grid, read_grid
from evaluator.replay.step import check_step, replay, replay_step
from evaluator.run_folder import RunFolder
from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.contracts.pipelines import Pipeline
from services.dense.app import build_app as build_dense
from services.dense.settings import DenseSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from services.reranker.app import build_app as build_reranker
from services.reranker.settings import RerankerSettings
from tests.support.served import served

PIPELINES = ("bm25", "dense", "hybrid", "bm25-rerank", "hybrid-rerank")
COLLECTION = bundled_directory().parent / "collections" / "bicycle-workshop"
SMALL = Grid(leg_depths=(10, 40), rerank_depths=(10, 30), weights=(0.3, 0.6))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("stack")
    apps = {
        "lexical": build_lexical(LexicalSettings(directory=folder / "lexical")),
        "dense": build_dense(DenseSettings(directory=folder / "dense", encoder="hashing")),
        "reranker": build_reranker(RerankerSettings(scorer="overlap")),
    }
    with ExitStack() as stack:
        backends = {
            name: BackendAddress.model_validate({"family": name, "url": stack.enter_context(served(app))})
            for name, app in apps.items()
        }
        yield stack.enter_context(served(build_gateway(GatewaySettings(backends=backends))))


@asynccontextmanager
async def ranked(gateway: str, runs: Path) -> AsyncIterator[tuple[GatewayClient, RunFolder]]:
    experiment = Experiment(
        name="small", dataset=str(COLLECTION), pipelines=PIPELINES, depth=50, queries=12, recall_queries=0
    )
    folder = RunFolder.create(runs, experiment)
    async with connected(gateway) as client:
        await evaluate(client, folder)
        yield client, folder


async def test_fates_add_up_to_the_relevant_documents_and_steps_to_the_figure(gateway: str, tmp_path: Path) -> None:
    async with ranked(gateway, tmp_path) as (client, folder):
        found = await attribute_step(client, folder)
    assert set(found.arms) == set(PIPELINES)
    for name, arm in found.arms.items():
        assert list(arm.fates) == list(FATES)
        assert sum(arm.fates.values()) == arm.relevant > 0
        assert sum(step.added for step in arm.waterfall) == pytest.approx(arm.ndcg, abs=1e-9)
        assert (arm.ndcg, arm.otherwise, arm.lost, arm.degraded) == (arm.run_ndcg, 0, 0, 0)
        lines = (folder.path / "attribution" / f"{name}.jsonl").read_text().splitlines()
        assert [json.loads(line)["fate"] for line in lines].count("found") == arm.fates["found"]
    assert "<svg" in (folder.path / "attribution" / "fates.svg").read_text()
    assert "| hybrid-rerank" in (folder.path / "attribution.md").read_text()


async def test_a_replay_gives_the_hits_that_the_gateway_gives(gateway: str, tmp_path: Path) -> None:
    async with ranked(gateway, tmp_path) as (client, folder):
        await attribute_step(client, folder)
        done = replay(folder, SMALL)
        checked = await check_step(client, folder, done, 20)
    assert [one.otherwise for one in checked] == [()] * 20
    report = replay_step(folder, SMALL, done, None, checked)
    assert len(report.points) > 60
    assert report.choice.tuned == max(one.mean for one in report.points)
    winner = Pipeline.model_validate(yaml.safe_load((folder.path / "replay" / "replayed.yaml").read_text()))
    assert winner.identified.source.stage == report.choice.pipeline.identified.source.stage
    costs = [report.points[at].cost_ms for at in report.front]
    assert costs == sorted(costs)


async def test_an_interrupted_collection_goes_on_where_it_stood(gateway: str, tmp_path: Path) -> None:
    async with ranked(gateway, tmp_path) as (client, folder):
        await attribute_step(client, folder)
        whole = (folder.path / "candidates.jsonl").read_bytes().splitlines(keepends=True)
        (folder.path / "candidates.jsonl").write_bytes(b"".join(whole[:3]) + whole[3][:100])
        with pytest.raises(EvaluationError, match=r"candidates\.jsonl is not the one"):
            attribution(folder)
        await attribute_step(client, folder)
    again = (folder.path / "candidates.jsonl").read_bytes().splitlines(keepends=True)
    assert again[:3] == whole[:3]
    assert [json.loads(line)["query"] for line in again] == [json.loads(line)["query"] for line in whole]


async def test_a_run_that_was_not_attributed_is_refused_with_the_command_to_call(gateway: str, tmp_path: Path) -> None:
    async with ranked(gateway, tmp_path) as (_, folder):
        with pytest.raises(EvaluationError, match=r"no candidates\.json; run `.* attribute /"):
            replay(folder, SMALL)


def test_a_grid_that_is_none_is_refused_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text("leg_depths: [0]\n")
    with pytest.raises(EvaluationError, match=r"grid\.yaml: no grid"):
        read_grid(tmp_path / "grid.yaml")


async def test_another_depth_is_asked_anew(gateway: str, tmp_path: Path) -> None:
    async with ranked(gateway, tmp_path) as (client, folder):
        ten = await attribute_step(client, folder, 10)
        three = await attribute_step(client, folder, 3)
    assert (ten.top, three.top) == (10, 3)
    assert three.arms["bm25"].fates["found"] < ten.arms["bm25"].fates["found"]
    lines = (folder.path / "candidates.jsonl").read_text().splitlines()
    assert {len(json.loads(line)["arms"]["bm25"]["hits"]) for line in lines} == {3}


async def test_a_query_that_failed_is_asked_again(gateway: str, tmp_path: Path) -> None:
    async with ranked(gateway, tmp_path) as (client, folder):
        await attribute_step(client, folder)
        path = folder.path / "candidates.jsonl"
        lost, *others = path.read_text().splitlines()
        query = json.loads(lost)["query"]
        failed = {"query": query, "arms": {name: {"error": "timeout"} for name in PIPELINES}}
        path.write_text("".join(f"{line}\n" for line in (json.dumps(failed), *others)))
        found = await attribute_step(client, folder)
    assert [arm.lost for arm in found.arms.values()] == [0] * len(PIPELINES)
    assert json.loads(path.read_text().splitlines()[-1])["query"] == query
