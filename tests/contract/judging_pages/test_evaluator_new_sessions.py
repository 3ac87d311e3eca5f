"""A session of judging is made beside the pages: its page waits, a form makes one session."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from evaluator.service.background_work import MOST_WAITING
from tests.support.held_files import held_back, settings_that_wait
from tests.support.judging_pages import followed, hidden, session_of
from tests.support.processes import ROOT, Process, free_port

Fields = dict[str, str | list[str]]


@pytest.fixture
def slow(runs: Path, run: str) -> Path:
    """A file that a new session reads, and the form does not."""
    return runs / run / "answers" / "good.jsonl"


async def filled_in(client: httpx.AsyncClient, run: str, **changed: str) -> Fields:
    """Loads the form of a new session; returns what a browser sends of it."""
    form = await client.get(f"/judge?runs={run}")
    asked = {"top": "3", "seed": "77", "judge": "ann", "order": "pool", **changed}
    return {**hidden(form), "pipelines": [f"{run}:bad", f"{run}:good"], **asked}


def address(waiting: httpx.Response) -> str:
    """Returns what a waiting page loads next."""
    assert waiting.status_code == 200, waiting.text
    return str(waiting.headers["refresh"]).removeprefix("2; url=")


def sessions_of(runs: Path) -> list[str]:
    return [path.parent.name for path in runs.glob("judging/*/session.json")]


async def test_a_session_that_takes_long_is_waited_for_on_a_page_that_leads_to_its_first_pair(
    client: httpx.AsyncClient, run: str, runs: Path, slow: Path
) -> None:
    with held_back(slow):
        sent = await client.post("/judge", data=await filled_in(client, run))
        still, listed = await client.get(address(sent)), await client.get("/judge")
        assert not (runs / "judging").exists()
    last = await followed(client, still)
    pair = await client.get(last.headers["location"])
    assert "<h1>Making the session …</h1>" in sent.text
    assert address(still) == address(sent)
    assert "There is no session yet." in listed.text
    assert last.status_code == 303
    assert re.fullmatch(r"/judge/[^/]+/pair\?judge=ann&order=pool", last.headers["location"])
    assert sessions_of(runs) == [session_of(last.headers["location"])]
    assert "ann: 0 graded" in pair.text


async def test_a_form_that_is_sent_again_leads_to_the_session_that_it_has_made(
    client: httpx.AsyncClient, run: str, runs: Path, slow: Path
) -> None:
    fields = await filled_in(client, run)
    with held_back(slow):
        sent = await asyncio.gather(*(client.post("/judge", data=fields) for _ in range(2)))
        by_another = await client.post("/judge", data={**fields, "judge": "bob"})
    first, second, third = [await followed(client, answer) for answer in (*sent, by_another)]
    after = await followed(client, await client.post("/judge", data=fields))
    paths = [answer.headers["location"] for answer in (first, second, after)]
    assert paths == [paths[0]] * 3
    assert third.headers["location"] == paths[0].replace("judge=ann", "judge=bob")
    assert sessions_of(runs) == [session_of(paths[0])]


async def test_a_folder_that_cannot_be_written_is_told_and_the_same_form_can_be_sent_again(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    fields = await filled_in(client, run)
    (runs / "judging").write_text("in the way")
    failed = await followed(client, await client.post("/judge", data=fields))
    (runs / "judging").unlink()
    mended = await followed(client, await client.post("/judge", data=fields))
    assert failed.status_code == 503
    assert "Free the disk or mend the folder, then try again." in failed.text
    assert str(runs) not in failed.text
    assert mended.status_code == 303


async def test_more_sessions_than_may_wait_are_refused(
    client: httpx.AsyncClient, run: str, runs: Path, slow: Path
) -> None:
    with held_back(slow):
        for seed in range(MOST_WAITING):
            address(await client.post("/judge", data=await filled_in(client, run, seed=str(seed))))
        refused = await client.post("/judge", data=await filled_in(client, run))
    assert (refused.status_code, refused.headers["retry-after"], "refresh" in refused.headers) == (503, "5", False)
    assert "try again in a moment" in refused.text


@pytest.mark.integration  # takes seconds
async def test_a_service_killed_while_it_makes_a_session_leaves_none_and_says_so_on_the_page_that_waits(
    run: str, runs: Path, slow: Path, tmp_path: Path
) -> None:
    settings = {"EVALUATOR_RUNS": str(runs), "GATEWAY_URL": f"http://127.0.0.1:{free_port()}"}
    settings |= settings_that_wait(tmp_path)
    service = Process("evaluator", settings, arguments=("serve",))
    try:
        async with httpx.AsyncClient(base_url=service.url, timeout=60.0, trust_env=False) as browser:
            with held_back(slow):
                service.start(tmp_path / "log")
                await service.ready()
                waiting = address(await browser.post("/judge", data=await filled_in(browser, run)))
                service.kill()
            service.start(tmp_path / "log")
            await service.ready()
            said, listed = await browser.get(waiting), await browser.get("/judge")
            after = await followed(browser, await browser.post("/judge", data=await filled_in(browser, run)))
    finally:
        service.kill()
    assert (said.status_code, "the service was started again" in said.text) == (404, True)
    assert "There is no session yet." in listed.text
    assert after.status_code == 303
    assert sessions_of(runs) == [session_of(after.headers["location"])]


def test_a_disk_that_fills_up_leaves_no_folder_of_a_session(run: str, runs: Path) -> None:
    pooled = [str(runs / f"{run}:{name}") for name in ("bad", "good")]
    command = [sys.executable, "-m", "evaluator", "judge", "pool", *pooled, "--runs", str(runs)]
    # In blocks of 1 kB. A file that would be larger fails as on a full disk; the texts of documents are. Bytecode is,
    # too: Python 3.11 would keep a part of it, which nothing can import.
    limited = ["bash", "-c", 'export PYTHONDONTWRITEBYTECODE=1; ulimit -f 1; "$@"', "limited", *command]
    ended = subprocess.run(limited, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode != 0, "File too large" in ended.stderr) == (True, True), ended.stderr
    assert list((runs / "judging").iterdir()) == []
