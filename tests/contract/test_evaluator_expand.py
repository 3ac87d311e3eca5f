"""Documents are expanded by a model, loaded with a collection and searched; real services, a stub of the model's."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.client.client import connected
from evaluator.datasets.reader import read_dataset
from evaluator.errors import EvaluationError
from evaluator.expansion import deepct
from evaluator.expansion.deepct import expand_deepct
from evaluator.expansion.sparse_service import sparse_service
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import load_dataset, prepare_run
from gateway.settings import GatewaySettings
from services.chassis.settings.strict_yaml import parse_yaml
from services.sparse.app import build_app
from services.sparse.settings import SparseSettings
from tests.support.gateway_stub import write_shop
from tests.support.real_stack import real_stack
from tests.support.served import served
from tests.support.small_runs import planned

VOCABULARY = {"red": 1, "bell": 2, "steel": 3, "saddle": 4, "chain": 5, "spring": 6, "##s": 7}
DEEPCT = GatewaySettings().pipelines / "deepct.yaml"
MODEL = "toy@0123456789ab"


class Weigher(httpx.MockTransport):
    """A server of /embed_sparse: a word weighs its place in the vocabulary. Fails from the `last`-th request on."""

    def __init__(self, model: str = MODEL, last: int = 1_000) -> None:
        super().__init__(self.answer)
        self.model = model
        self.left = last

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.left -= 1
        if self.left < 0:
            raise httpx.ConnectError("gone", request=request)
        texts = json.loads(request.content)["inputs"]
        assert all(texts), "TEI refuses an empty text"
        weights = [
            [{"index": number, "value": float(number)} for word, number in VOCABULARY.items() if word in text.lower()]
            for text in texts
        ]
        return httpx.Response(200, json=weights, headers={"x-model": self.model})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Holds the collection `shop` and the tokenizer of the model `toy`."""
    write_shop(tmp_path / "shop")
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "tokenizer.json").write_text(json.dumps({"model": {"vocab": VOCABULARY}}))
    return tmp_path


async def expand(directory: Path, name: str, weigher: Weigher) -> Path:
    async with sparse_service("http://sparse", weigher) as service:
        out = directory / name
        await expand_deepct(service, read_dataset(directory / "shop"), directory, out)
        return out


async def test_an_interrupted_expansion_is_continued_to_the_same_file(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deepct, "BATCH", 2)
    whole = await expand(directory, "whole.jsonl", Weigher())
    assert [json.loads(line)["_id"] for line in whole.read_text().splitlines()] == ["d1", "d2", "d3", "d4", "q4", "d5"]
    with pytest.raises(EvaluationError, match="--sparse"):
        await expand(directory, "part.jsonl", Weigher(last=3))  # the first asks for the model
    part = directory / "part.jsonl"
    assert len(part.read_text().splitlines()) == 4
    weigher = Weigher(last=2)
    assert (await expand(directory, "part.jsonl", weigher)).read_bytes() == whole.read_bytes()
    assert weigher.left == 0


async def test_a_server_that_names_no_model_is_refused(directory: Path) -> None:
    with pytest.raises(EvaluationError, match="X-Model"):
        await expand(directory, "a.jsonl", Weigher(model="hashing@none"))


async def test_a_loaded_collection_is_searched_by_its_expansions(directory: Path) -> None:
    out = await expand(directory, "deepct.jsonl", Weigher())
    experiment = planned(directory, collection="c", pipelines=["bm25"], expansions=[str(out)], preset="deepct")
    async with real_stack(directory, refresh_s=0.05) as stack, connected("http://stack", stack.into_gateway) as client:
        first = await ingest(client, experiment, load_dataset(experiment))
        again = await ingest(client, experiment, load_dataset(experiment))
        assert (first.generation, again.generation, again.backends["lexical"].unchanged) == ("c@1", "c@1", 6)
        pipeline = parse_yaml(DEEPCT.read_text())
        answer = await stack.post("/search", query="saddles", pipeline=pipeline)
        assert {hit["id"] for hit in answer.json()["hits"]} == {"d3", "q4"}

        folder = RunFolder.create(directory / "runs", experiment)
        folder.write("ingest.json", again)
        await prepare_run(client, folder)
        out.write_text(out.read_text().replace("saddle|", "saddle|9"))
        with pytest.raises(EvaluationError, match="expansions changed"):
            await prepare_run(client, folder)

        other = planned(directory, collection="c", pipelines=["bm25"])
        assert (await ingest(client, other, load_dataset(other))).generation == "c@2"
        refused = await stack.post("/search", query="saddles", pipeline=pipeline)
        assert refused.status_code == 422
        assert "deepct is not declared for this collection" in refused.json()["detail"]


def test_a_preset_over_expansions_needs_a_file_of_them(directory: Path) -> None:
    with pytest.raises(ValueError, match="expansions"):
        planned(directory, presets=["beir", "deepct"])


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with served(build_app(SparseSettings(directory=tmp_path / "sparse", encoder="hashing"))) as url:
        yield url


def test_the_command_asks_the_service_and_names_what_is_wrong(directory: Path, url: str) -> None:
    async def weigh() -> list[int]:
        async with sparse_service(url) as service:
            return [len(weights) for weights in await service.weights(["oil the chain", "oil"])]

    assert asyncio.run(weigh()) == [3, 1]
    words = ["expand", "deepct", str(directory / "shop"), "--out", str(directory / "a.jsonl"), "--sparse"]
    for address, named in ((url, "X-Model"), ("http://127.0.0.1:9", "--sparse")):
        done = CliRunner().invoke(app, [*words, address])
        assert done.exit_code == 1
        assert named in done.stderr
