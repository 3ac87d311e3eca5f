"""The command `parity` of an encoder: an exact search over HTTP, against a figure computed from its vectors."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytrec_eval
from typer.testing import CliRunner

from evaluator.__main__ import app
from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.chassis.deadlines import Deadline
from services.dense.app import build_app as build_dense
from services.dense.encoder_hashing import HashingEncoder
from services.dense.settings import DenseSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from tests.support.parity_collection import ParityCollection, generated_collection
from tests.support.served import served


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


async def figure_of(collection: ParityCollection) -> str:
    """Returns nDCG@10 of the inner products of all vectors, equal ones by ascending id, by trec_eval."""
    encoder, deadline = HashingEncoder(), Deadline.after_ms(60_000)
    ids = sorted(collection.documents)
    vectors = await encoder.encode_passages([" ".join(collection.documents[one]) for one in ids], deadline)
    run = {}
    for query in collection.grades:
        scores = vectors @ await encoder.encode_query(collection.queries[query], deadline)
        order = sorted(range(len(ids)), key=lambda place: (-scores[place], ids[place]))
        itself = collection.documents.get(query, ("", ""))[1] == collection.queries[query]
        kept = [ids[place] for place in order if not (itself and ids[place] == query)]
        run[query] = {one: float(len(kept) - rank) for rank, one in enumerate(kept)}
    grades = {query: dict(judged) for query, judged in collection.grades.items()}
    found = pytrec_eval.RelevanceEvaluator(grades, {"ndcg_cut.10"}).evaluate(run)
    return f"{sum(one['ndcg_cut_10'] for one in found.values()) / len(grades):.4f}"


def compared(url: str, directory: Path, runs: Path, figure: str, pipeline: str) -> tuple[int, str, str]:
    words = ["parity", "e5-small-v2", str(directory), "--pipeline", pipeline, "--published", figure]
    done = CliRunner().invoke(app, [*words, "--runs", str(runs), "--gateway", url])
    return done.exit_code, done.stdout, done.stderr


def test_the_figure_of_an_encoder_is_compared_and_its_other_settings_are_named(url: str, tmp_path: Path) -> None:
    collection = generated_collection(seed=2)
    directory = collection.write(tmp_path / "generated")
    figure = asyncio.run(figure_of(collection))
    for printed, status, said in (
        (figure, 0, "Equal."),
        ("0.0010", 4, f"Off by {float(figure) - 0.001:+.4f} nDCG@10."),
    ):
        code, shown, _ = compared(url, directory, tmp_path / "runs", printed, "second")
        assert (code, said in shown) == (status, True), shown
        assert "model ('hashing' instead of 'e5-small-v2'); max_tokens ('" in shown
        assert "trained on: MS MARCO, NQ, " in shown
        assert "query_prefix ('unknown' instead of 'query: ')" in shown
    report = json.loads((tmp_path / "runs" / "parity.json").read_text())
    assert {"model", "max_tokens"} <= {one["setting"] for one in report["differing"]}


def test_a_pipeline_of_more_than_one_retrieve_is_refused(url: str, tmp_path: Path) -> None:
    directory = generated_collection(seed=2).write(tmp_path / "generated")
    code, _, complaint = compared(url, directory, tmp_path / "runs", "0.1234", "cut")
    assert code == 1
    assert "--pipeline cut: an encoder is compared by a pipeline of one retrieve" in complaint
