"""The workshop's command writes files of generated queries, which the services take."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.client.client import connected
from evaluator.expansion.expansion_file import read_expansions
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import load_dataset
from tests.support.real_stack import real_stack
from tests.support.small_runs import planned
from tests.support.tiny_t5 import WORDS, write_tiny_t5
from workshop.doc2query.__main__ import app

DOCUMENTS = 20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Holds `words`, a collection of five words per document and one without any, and the model `tiny-t5`."""
    write_tiny_t5(tmp_path / "tiny-t5")
    folder = tmp_path / "words"
    (folder / "qrels").mkdir(parents=True)
    texts = [" ".join(WORDS[(3 * place + step) % 30] for step in range(5)) for place in range(DOCUMENTS)]
    lines = [{"_id": f"d{place}", "title": "", "text": text} for place, text in enumerate(texts)]
    lines[7]["text"] = ""
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "w1"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n")
    return tmp_path


def command(directory: Path, out: str, *more: str) -> list[str]:
    model = ["--model", str(directory / "tiny-t5"), "--out", str(directory / out)]
    return [str(directory / "words"), *model, *more]


def test_an_interrupted_expansion_is_continued_to_the_same_bytes(directory: Path) -> None:
    more = ("--queries", "5", "--seed", "3")
    done = CliRunner().invoke(app, command(directory, "out.jsonl", *more))
    assert done.exit_code == 0, done.stderr
    out = directory / "out.jsonl"
    whole = out.read_bytes()
    held = [line.doc2query for _, _, line in read_expansions(out)]
    kept = sum(len(generated.queries) for generated in held if generated is not None)
    assert f"{kept:,} of {(DOCUMENTS - 1) * 5:,} queries kept" in done.stderr
    assert "CPU s a document" in done.stderr
    assert held[7] is not None
    assert held[7].queries == ()

    out.write_bytes(whole[: len(whole) // 2])
    assert CliRunner().invoke(app, command(directory, "out.jsonl", *more)).exit_code == 0
    assert out.read_bytes() == whole
    refused = CliRunner().invoke(app, command(directory, "out.jsonl", "--queries", "5"))
    assert (refused.exit_code, "--out" in refused.stderr, out.read_bytes() == whole) == (1, True, True)
    refused = CliRunner().invoke(app, [*command(directory, "a.jsonl"), "--model", str(directory / "words")])
    assert (refused.exit_code, "--model" in refused.stderr) == (1, True)


async def test_the_service_takes_the_file_and_searches_it(directory: Path) -> None:
    out = directory / "doc2query.jsonl"
    assert CliRunner().invoke(app, command(directory, out.name, "--queries", "3")).exit_code == 0
    words = str(directory / "words")
    experiment = planned(
        directory, dataset=words, collection="c", pipelines=["bm25"], expansions=[str(out)], preset="doc2query"
    )
    async with real_stack(directory, refresh_s=0.05) as stack, connected("http://stack", stack.into_gateway) as client:
        assert (await ingest(client, experiment, load_dataset(experiment))).backends["lexical"].indexed == DOCUMENTS
        stage = {"kind": "retrieve", "backend": "lexical", "preset": "doc2query"}
        answer = await stack.post("/search", query="w3", pipeline={"name": "p", "stages": [stage]})
        assert "d1" in {hit["id"] for hit in answer.json()["hits"]}
