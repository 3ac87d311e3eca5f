"""The command `parity`: over HTTP, with exit status and file."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from gateway.app import build_app as build_gateway
from gateway.settings import BackendAddress, GatewaySettings
from services.lexical.app import build_app as build_lexical
from services.lexical.presets import BUILT_IN
from services.lexical.settings import LexicalSettings
from tests.support.parity_collection import ParityCollection, generated_collection
from tests.support.served import served


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    lexical = build_lexical(LexicalSettings(directory=tmp_path / "lexical"))
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    (pipelines / "bm25.yaml").write_text("name: bm25\nstages: [{kind: retrieve, backend: lexical}]")
    with served(lexical) as address:
        backends = {"lexical": BackendAddress(family="lexical", url=address)}
        with served(build_gateway(GatewaySettings(backends=backends, pipelines=pipelines))) as gateway:
            yield gateway


def a_tenth(whole: ParityCollection) -> ParityCollection:
    """Returns the first queries of a collection, with the documents that are judged for them."""
    grades = {query: whole.grades[query] for query in sorted(whole.grades)[:4]}
    judged = {one for of_query in grades.values() for one in of_query}
    return ParityCollection(
        {one: whole.documents[one] for one in sorted(judged)}, {query: whole.queries[query] for query in grades}, grades
    )


def test_the_exit_status_says_whether_the_figure_is_the_published_one(url: str, tmp_path: Path) -> None:
    collection = a_tenth(generated_collection(seed=2))
    words = ("parity", "beir", str(collection.write(tmp_path / "generated")), "--runs", str(tmp_path / "runs"))
    for figure, status, said in (
        (collection.figure(BUILT_IN["beir"]), 0, "Equal to the 4th decimal."),
        ("0.1234", 4, "Explained by none of the "),
    ):
        done = CliRunner().invoke(app, [*words, "--gateway", url, "--published", figure])
        assert done.exit_code == status, done.output
        assert said in done.stdout
        report = json.loads((tmp_path / "runs" / "parity.json").read_text())
        assert report["equal"] is (status == 0)
        assert report["published"]["figures"] == {"nDCG@10": figure}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("beir", "nowhere"), "nowhere: neither a directory nor a name of the catalogue (`"),
        (("beir", "{directory}"), "no published figure of beir on generated; give one with --published"),
        (("beir", "{directory}", "--split", "dev"), "the published figures are of the split test, not dev"),
        (
            ("beir", "cqadupstack"),
            "cqadupstack holds 12 collections; parity takes one: cqadupstack/android for example",
        ),
        (("bm25", "{directory}"), "there is no preset bm25"),
    ],
)
def test_what_cannot_be_compared_is_said_before_anything_is_loaded(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    directory = str(generated_collection(seed=2).write(tmp_path / "generated"))
    asked = [word.format(directory=directory) for word in words]
    done = CliRunner().invoke(app, ["parity", *asked, "--gateway", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert said in done.stderr
