"""The workshop's commands write files of generated queries, which the services take; a search drops the bad ones."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.client.client import connected
from evaluator.errors import EvaluationError
from evaluator.expansion.expansion_file import read_expansions
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import load_dataset
from tests.support.real_stack import real_stack
from tests.support.small_runs import planned
from tests.support.tiny_t5 import WORDS, write_tiny_t5
from workshop.expansion.__main__ import app
from workshop.expansion.found_queries import keep_found

DOCUMENTS = 20


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Holds `words`, a collection of five words a document and one without any, and the model `tiny-t5`."""
    write_tiny_t5(tmp_path / "tiny-t5")
    folder = tmp_path / "words"
    (folder / "qrels").mkdir(parents=True)
    texts = [" ".join(WORDS[(3 * place + step) % 30] for step in range(5)) for place in range(DOCUMENTS)]
    lines = [{"_id": f"d{place}", "title": "", "text": text} for place, text in enumerate(texts)]
    lines[7]["text"] = ""
    (folder / "corpus.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "w1"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td0\t1\n")
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "dense.yaml").write_text("name: dense\nstages: [{kind: retrieve, backend: dense}]")
    return tmp_path


def command(directory: Path, out: str, *more: str) -> list[str]:
    model = ["--model", str(directory / "tiny-t5"), "--out", str(directory / out)]
    return ["doc2query", str(directory / "words"), *model, *more]


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


async def test_the_service_takes_the_queries_and_those_that_do_not_find_their_document_are_dropped(
    directory: Path,
) -> None:
    assert CliRunner().invoke(app, command(directory, "doc2query.jsonl", "--queries", "3")).exit_code == 0
    out, found = directory / "doc2query.jsonl", directory / "found.jsonl"
    lines = out.read_text().splitlines()
    # d1 gets a query of another document's words, which cannot find it among the first.
    spoilt = json.loads(lines[1])
    spoilt["doc2query"]["queries"] = ["w28 w29 w27", "w3 w4 w5 w6 w7"]
    out.write_text("\n".join([lines[0], json.dumps(spoilt), *lines[2:]]) + "\n")

    words = str(directory / "words")
    plain = planned(directory, dataset=words, collection="c", pipelines=["bm25", "dense"])
    expanded = planned(
        directory, dataset=words, collection="c", pipelines=["bm25"], expansions=[str(found)], preset="doc2query"
    )
    async with real_stack(directory, refresh_s=0.05) as stack, connected("http://stack", stack.into_gateway) as client:
        await ingest(client, plain, load_dataset(plain))
        await keep_found(client, "c", "dense", 5, out, found)
        whole = found.read_bytes()
        kept = {identity: line.doc2query for _, identity, line in read_expansions(found)}
        assert len(kept) == DOCUMENTS
        assert kept["d1"] is not None
        assert kept["d1"].queries == ("w3 w4 w5 w6 w7",)
        assert kept["d1"].model != spoilt["doc2query"]["model"]
        assert kept["d1"].model.startswith("tiny-t5+")

        found.write_bytes(whole[: len(whole) // 2])
        await keep_found(client, "c", "dense", 5, out, found)
        assert found.read_bytes() == whole
        with pytest.raises(EvaluationError, match="--out"):
            await keep_found(client, "c", "dense", 4, out, found)

        assert (await ingest(client, expanded, load_dataset(expanded))).generation == "c@2"
        pipeline = {"name": "p", "stages": [{"kind": "retrieve", "backend": "lexical", "preset": "doc2query"}]}
        answer = await stack.post("/search", query="w3", pipeline=pipeline)
        assert "d1" in {hit["id"] for hit in answer.json()["hits"]}

        frequencies = directory / "deepct.jsonl"
        frequencies.write_text('{"_id": "d0", "deepct": {"model": "toy@0123456789ab", "words": "oil|1"}}\n')
        with pytest.raises(EvaluationError, match="no doc2query"):
            await keep_found(client, "c", "dense", 10, frequencies, directory / "other.jsonl")


def test_the_commands_name_what_is_wrong(directory: Path) -> None:
    done = CliRunner().invoke(app, [*command(directory, "a.jsonl"), "--model", str(directory / "words")])
    assert (done.exit_code, "--model" in done.stderr) == (1, True)
    same = str(directory / "a.jsonl")
    done = CliRunner().invoke(app, ["keep-found", same, "--out", same])
    assert (done.exit_code, "--out" in done.stderr) == (2, True)
