"""Parity: on the embedded engine, of an encoder, by the command, and over a gateway with faults."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytrec_eval
from fastapi import FastAPI
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.client.client import connected
from evaluator.datasets.reader import read_dataset
from evaluator.errors import EvaluationError
from evaluator.parity.answers import ask_every_query, load, served_settings
from evaluator.parity.comparison import parity_experiment
from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.chassis.deadlines import Deadline
from services.chassis.errors import Unavailable
from services.dense.app import build_app as build_dense
from services.dense.encoder_hashing import HashingEncoder
from services.dense.settings import DenseSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from tests.contract.parity_suite import ParitySuite
from tests.support.backends import FaultyTransport
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.parity_collection import ParityCollection, generated_collection
from tests.support.served import served


class TestParityOnEdge(ParitySuite):
    @pytest.fixture
    def lexical(self, tmp_path: Path) -> FastAPI:
        return build_lexical(LexicalSettings(directory=tmp_path / "lexical"))


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    for name, stages in {
        "bm25": "{kind: retrieve, backend: lexical}",
        "second": "{kind: retrieve, backend: second}",
        "cut": "{kind: retrieve, backend: second}, {kind: cut, top: 5}",
    }.items():
        (pipelines / f"{name}.yaml").write_text(f"name: {name}\nstages: [{stages}]")
    lexical = build_lexical(LexicalSettings(directory=tmp_path / "lexical"))
    dense = build_dense(DenseSettings(directory=tmp_path / "dense", encoder="hashing"))
    with served(lexical) as at_lexical, served(dense) as at_dense:
        backends = {
            "lexical": BackendAddress(family="lexical", url=at_lexical),
            "second": BackendAddress(family="dense", url=at_dense),
        }
        with served(build_gateway(GatewaySettings(backends=backends, pipelines=pipelines))) as gateway:
            yield gateway


async def figure_of_vectors(collection: ParityCollection) -> str:
    """Returns nDCG@10 of the inner products of all vectors, equal ones by ascending id, by trec_eval."""
    encoder, deadline = HashingEncoder(), Deadline.after_ms(60_000)
    ids = sorted(collection.documents)
    vectors = await encoder.encode_passages([" ".join(collection.documents[name]) for name in ids], deadline)
    run = {}
    for query in collection.grades:
        scores = vectors @ await encoder.encode_query(collection.queries[query], deadline)
        order = sorted(range(len(ids)), key=lambda place: (-scores[place], ids[place]))
        itself = collection.documents.get(query, ("", ""))[1] == collection.queries[query]
        kept = [ids[place] for place in order if not (itself and ids[place] == query)]
        run[query] = {name: float(len(kept) - rank) for rank, name in enumerate(kept)}
    grades = {query: dict(judged) for query, judged in collection.grades.items()}
    measured = pytrec_eval.RelevanceEvaluator(grades, {"ndcg_cut.10"}).evaluate(run)
    return f"{sum(figures['ndcg_cut_10'] for figures in measured.values()) / len(grades):.4f}"


def test_an_encoder_is_compared_by_an_exact_search_and_the_exit_status_tells_whether_it_is_off(
    url: str, tmp_path: Path
) -> None:
    collection = generated_collection(seed=2)
    directory, runs = str(collection.write(tmp_path / "generated")), tmp_path / "runs"
    words = ["parity", "e5-small-v2", directory, "--runs", str(runs), "--gateway", url]
    figure = asyncio.run(figure_of_vectors(collection))
    for printed, status, said in (
        (figure, 0, "Equal to the 4th decimal."),
        ("0.0010", 4, f"Off by {float(figure) - 0.001:+.4f} nDCG@10."),
    ):
        done = CliRunner().invoke(app, [*words, "--pipeline", "second", "--published", printed])
        assert (done.exit_code, said in done.stdout) == (status, True), done.output
        assert "model ('hashing' instead of 'e5-small-v2'); max_tokens ('" in done.stdout
        assert "trained on: MS MARCO, NQ, " in done.stdout
        report = json.loads((runs / "parity.json").read_text())
        assert report["equal"] is (status == 0)
        assert report["published"]["figures"] == {"nDCG@10": printed}
        assert {"model", "max_tokens"} <= {setting["setting"] for setting in report["differing"]}
    done = CliRunner().invoke(app, [*words, "--pipeline", "cut", "--published", "0.1234"])
    assert done.exit_code == 1
    assert "--pipeline cut: an encoder is compared by a pipeline of one retrieve" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("beir", "nowhere"), "nowhere: neither a directory nor a name of the catalogue (`"),
        (("beir", "{directory}"), "no published figure of beir on generated; give one with --published"),
        (("beir", "{directory}", "--split", "dev"), "the published figures are of the split test, not dev"),
        (("beir", "cqadupstack"), "cqadupstack holds 12 collections; parity takes one: cqadupstack/android"),
        (("bm25", "{directory}"), "there is no preset bm25"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_loaded(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    directory = str(generated_collection(seed=2).write(tmp_path / "generated"))
    given = [word.format(directory=directory) for word in words]
    done = CliRunner().invoke(app, ["parity", *given, "--gateway", "http://127.0.0.1:9"])
    assert (done.exit_code, said in done.stderr) == (1, True)


async def no_sleep(_: float) -> None:
    return None


async def test_a_busy_gateway_costs_time_and_a_lost_query_the_comparison(stub: GatewayStub, tmp_path: Path) -> None:
    dataset = read_dataset(write_shop(tmp_path / "shop"))
    queries = list(dataset.judgments)
    gateway = stub.app
    async with gateway.router.lifespan_context(gateway):
        transport = FaultyTransport(gateway)
        async with connected("http://gateway", transport) as client:
            shop = await load(client, parity_experiment(dataset.directory), dataset)
            transport.fault, transport.faults_left = "status-503", 3
            answers = await ask_every_query(client, shop, "beir", dataset, queries, no_sleep)
            assert (transport.faults_left, list(answers), all(answers.values())) == (0, queries, True)

            stub.failing_queries = {"red bell": Unavailable("gone")}
            with pytest.raises(EvaluationError, match=r"gone.*parity"):
                await ask_every_query(client, shop, "beir", dataset, queries, no_sleep)
            with pytest.raises(EvaluationError, match="does not state the parameters of preset beir"):
                served_settings(shop.state, "beir")
