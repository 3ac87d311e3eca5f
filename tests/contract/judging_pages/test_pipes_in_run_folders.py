"""The evaluator's service over runs and sessions in which a named pipe stands in place of a file."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.evaluator_service import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.judging_pages import begun, judged, session_of

WITHIN_S = 20.0


@contextmanager
def piped(path: Path) -> Iterator[None]:
    """Puts a pipe in place of a file. At the end whoever waits at it reads that it is empty: a failing test ends."""
    kept = path.with_name(f".{path.name}.kept")
    path.rename(kept)
    os.mkfifo(path)
    try:
        yield
    finally:
        pipe = os.open(path, os.O_RDWR)  # waits for nobody
        kept.replace(path)
        os.close(pipe)


IN_RUN = ("rank.json", "quality.json", "report.json", "answers/good.jsonl")
IN_SESSION = ("session.json", "pool.jsonl", "documents.jsonl", "judges/ann.jsonl")


async def test_a_pipe_in_place_of_a_file_of_a_run_or_a_session_keeps_no_page_waiting(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    path = await begun(client, run)
    await judged(client, path, "1")
    session = session_of(path)
    pages = (
        f"/runs/{run}", f"/compare?runs={run}", f"/v1/experiments/{run}/report", "/judge", f"/judge/{session}",
        f"/judge/{session}/pair?judge=ann&order=pool",
    )  # fmt: skip
    folders = {runs / run: IN_RUN, runs / "judging" / session: IN_SESSION}
    for file in (folder / name for folder, names in folders.items() for name in names):
        async with evaluator(GatewayStub(), runs) as service:
            with piped(file):
                for page in pages:
                    try:
                        answer = await asyncio.wait_for(service.get(page), WITHIN_S)
                    except TimeoutError as error:
                        raise AssertionError(f"{page} waits for {file}") from error
                    assert answer.status_code < 500 or answer.status_code == 503, (page, file, answer.text)
