"""Pipeline files are read again on a call; a fault in one of them changes nothing and is named."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.app import build_app
from gateway.search.plan import PipelineError
from gateway.settings import GatewaySettings
from tests.support.backends import Stack, opened_stack

BM25 = "name: bm25\nstages: [{kind: retrieve, backend: lexical}]\n"
NEW = "name: new\nstages: [{kind: retrieve, backend: dense}]\n"
TYPO = "name: new\nstages: [{kind: retrieve, backend: lexcial}]\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "bm25.yaml").write_text(BM25)
    (tmp_path / "old.yaml").write_text(BM25.replace("bm25", "old"))
    (tmp_path / "same.yaml").write_text(BM25.replace("bm25", "same"))
    return tmp_path


@pytest.fixture
async def stack(files: Path) -> AsyncIterator[Stack]:
    async with opened_stack(pipelines=files) as stack:
        yield stack


async def names(stack: Stack) -> list[str]:
    return [one["name"] for one in (await stack.client.get("/v1/pipelines")).json()["pipelines"]]


async def test_a_new_file_is_served_after_a_call_that_says_what_changed(stack: Stack, files: Path) -> None:
    (files / "new.yaml").write_text(NEW)
    (files / "bm25.yaml").write_text(BM25.replace("lexical", "lexical, top: 7"))
    (files / "old.yaml").unlink()
    assert (await stack.search("fruit", "new")).status_code == 404
    answer = await stack.client.post("/v1/pipelines/reload", json={})
    assert (answer.status_code, answer.json()) == (
        200,
        {"added": ["new"], "changed": ["bm25"], "removed": ["old"], "unchanged": ["same"]},
    )
    assert (await stack.search("fruit", "new")).status_code == 200
    assert await names(stack) == ["bm25", "new", "same"]


LEARNED = "name: learned\nstages: [{kind: retrieve, backend: sparse}]\n"
LATE = """name: late
stages:
  - {kind: fuse, inputs: [{kind: retrieve, backend: lexical}, {kind: retrieve, backend: sparse}]}
  - {kind: rerank, backend: late_interaction}
"""


async def test_a_pipeline_over_a_service_that_is_not_there_is_refused_by_what_it_needs_and_the_others_are_served(
    files: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (files / "learned.yaml").write_text(LEARNED)
    (files / "late.yaml").write_text(LATE)
    with caplog.at_level(logging.INFO, "gateway.search.catalog"):
        async with opened_stack(pipelines=files) as stack:
            assert await names(stack) == ["bm25", "old", "same"]
            assert (await stack.search("fruit", "bm25")).status_code == 200
            for answer in (await stack.search("fruit", "learned"), await stack.client.get("/v1/pipelines/learned")):
                assert (answer.status_code, answer.json()["type"]) == (404, "urn:problem:unknown-pipeline")
                assert answer.json()["detail"] == (
                    "Pipeline 'learned' needs the backend 'sparse', which this gateway does not have; start it with "
                    "`make down && make up SYSTEMS=sparse`, or name it in GATEWAY_BACKENDS."
                )
            detail = (await stack.search("fruit", "late")).json()["detail"]
            assert "needs the backends 'sparse' and 'late_interaction'" in detail
            assert "SYSTEMS=sparse,late_interaction" in detail
    assert "pipeline 'learned' is not served: it needs the backend 'sparse'" in caplog.text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LEARNED.replace("sparse", "sparse, beam: 256"), "beam is for vectors; backend 'sparse' is sparse"),
        (LATE.replace("backend: lexical", "backend: lexcial"), "no backend 'lexcial'"),
        (
            LATE.replace("late_interaction", "late_interaction, passages: {tokens: 64}"),
            "backend 'late_interaction' scores stored vectors; leave passages out, or name a re-ranker",
        ),
    ],
)
async def test_another_fault_in_such_a_pipeline_is_named_as_ever(
    stack: Stack, files: Path, text: str, said: str
) -> None:
    (files / "learned.yaml").write_text(text)
    answer = await stack.client.post("/v1/pipelines/reload", json={})
    assert (answer.status_code, said in answer.json()["detail"]) == (422, True)


async def test_a_gateway_that_can_serve_none_of_its_pipelines_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "learned.yaml").write_text(LEARNED)
    with pytest.raises(PipelineError, match="pipeline 'learned' needs the backend 'sparse'"):
        build_app(GatewaySettings(pipelines=tmp_path))


async def test_a_file_with_a_byte_order_mark_and_windows_line_ends_is_read(stack: Stack, files: Path) -> None:
    (files / "new.yaml").write_text(NEW.replace("\n", "\r\n"), encoding="utf-8-sig", newline="")
    answer = await stack.client.post("/v1/pipelines/reload", json={})
    assert answer.status_code == 200, answer.text
    assert (await stack.client.get("/v1/pipelines/new")).status_code == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TYPO.encode(), "no backend 'lexcial'"),
        (b"name: [", "not valid YAML"),
        (b"description: " + b"[" * 2_000, "not valid YAML: it is nested too deeply"),
        (b"\xff", "not UTF-8"),
        (NEW.encode("utf-16"), "not UTF-8 but UTF-16"),
        (NEW.replace("new", "other").encode(), "differs from the file's"),
    ],
)
async def test_a_fault_in_a_file_is_named_and_every_pipeline_stays(
    stack: Stack, files: Path, text: bytes, said: str
) -> None:
    (files / "bm25.yaml").write_text(BM25.replace("lexical", "dense"))
    (files / "new.yaml").write_bytes(text)
    before = (await stack.client.get("/v1/pipelines")).json()
    answer = await stack.client.post("/v1/pipelines/reload", json={})
    assert answer.status_code == 422
    assert "new.yaml" in answer.json()["detail"]
    assert said in answer.json()["detail"]
    assert (await stack.client.get("/v1/pipelines")).json() == before


async def test_what_is_no_file_is_named_and_not_waited_for(stack: Stack, files: Path) -> None:
    os.mkfifo(files / "new.yaml")
    async with asyncio.timeout(5.0):
        answer = await stack.client.post("/v1/pipelines/reload", json={})
    assert answer.status_code == 422
    assert "new.yaml: it cannot be read: a named pipe, no file" in answer.json()["detail"]
