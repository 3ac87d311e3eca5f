"""`online report`, `online forget` and the page of online experiments, over the journal of a gateway."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.service.app import build_app
from evaluator.settings import EvaluatorSettings
from services.contracts.online import Event, Exposure
from tests.support.journals import did, shown, write_journal
from tests.support.opened_client import opened_client


def lines(experiment: str, worse: bool) -> Iterator[Exposure | Event]:
    for number in range(600):
        arm = "ab"[number % 2]
        search = shown(f"u{number}", number / 60, arm, experiment=experiment)
        yield search.model_copy(update={"query_id": f"{experiment}-{number}"})
        if number % 4 < 2 and (arm == "a") == worse:
            yield did(search, position=1).model_copy(update={"query_id": f"{experiment}-{number}"})


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Two experiments: `shop`, whose arm b is worse, and `blog`, whose arm b is better."""
    return write_journal(tmp_path / "journal", [*lines("shop", True), *lines("blog", False)])


def called(*words: object) -> Result:
    return CliRunner().invoke(app, ["online", *map(str, words)])


@pytest.mark.parametrize(("name", "words", "status"), [("shop", "worse", 4), ("blog", "better", 0)])
def test_the_exit_status_tells_a_worse_arm(journal: Path, name: str, words: str, status: int) -> None:
    done = called("report", name, "--journal", journal, "--now", "2025-12-03T12:00")
    assert done.exit_code == status, done.stderr
    assert f"b is {words} than a: click@10 " in done.stdout
    assert "as of 2025-12-03 12:00 UTC" in done.stdout
    again = called("report", name, "--journal", journal, "--now", "2025-12-03T12:00+0000", "--json")
    assert (again.exit_code, json.loads(again.stdout)["verdicts"][0]["outcome"]) == (status, words)


def test_what_cannot_be_reported_is_said(journal: Path, tmp_path: Path) -> None:
    assert "no search of an experiment cafe by 20" in called("report", "cafe", "--journal", journal).stderr
    assert called("report", "shop", "--journal", tmp_path / "nowhere").exit_code == 1
    assert called("report", "shop").exit_code == 2
    (foreign := tmp_path / "foreign").mkdir()
    (foreign / "ubi_queries-1.jsonl").write_text('{"query_id": "q", "user_query": "of another system"}\n' * 3)
    assert "3 lines cannot be read" in called("report", "shop", "--journal", foreign).stderr
    for effect in ("nan", "inf", "0"):
        assert called("report", "shop", "--journal", journal, "--effect", effect).exit_code == 2
    assert "connect" in called("report", "shop", "--journal", "http://127.0.0.1:1/").stderr.lower()


def test_a_forgotten_unit_is_not_counted_any_more(journal: Path) -> None:
    assert called("forget", "u4", "--journal", journal).stdout == "3 lines removed.\n"
    assert "599 units since" in called("report", "shop", "--journal", journal).stdout


async def page(client: httpx.AsyncClient, path: str) -> httpx.Response:
    """Follows a page until it is there, as a browser does."""
    for _ in range(600):
        answer = await client.get(path)
        path = answer.headers.get("location", path)
        if answer.status_code != 303 and "refresh" not in answer.headers:
            return answer
    raise AssertionError(f"{path} is not there")


async def test_the_page_has_all_experiments_and_stays_as_of_its_time(journal: Path, tmp_path: Path) -> None:
    settings = EvaluatorSettings(runs=tmp_path / "runs", datasets=(), journal=str(journal))
    async with opened_client(build_app(settings), "http://evaluator") as client:
        assert '<a href="/online">Online</a>' in (await client.get("/")).text
        shown_now = await page(client, "/online")
        assert shown_now.text.index("b is worse than a") != shown_now.text.index("b is better than a")
        early = await page(client, "/online?now=2025-12-01T01:00:00Z")
        assert "no interval yet" in early.text
        assert (await client.get("/online?now=soon")).status_code == 422


async def test_the_page_says_what_is_missing(tmp_path: Path) -> None:
    for journal, status, words in ((None, 404, "EVALUATOR_JOURNAL"), (str(tmp_path / "gone"), 409, "neither")):
        settings = EvaluatorSettings(runs=tmp_path / "runs", datasets=(), journal=journal)
        async with opened_client(build_app(settings), "http://evaluator") as client:
            answer = await page(client, "/online")
        assert (answer.status_code, words in answer.text) == (status, True)
