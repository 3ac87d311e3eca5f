"""Makes a run with unjudged documents, and judges it on the pages of the evaluator as a browser does."""

import html
import re
from pathlib import Path

import httpx

from evaluator.report.evaluation import quality_step
from evaluator.report.report_step import report_step
from evaluator.steps.run_import import import_runs
from tests.support.simulated_runs import BAD, GOOD, write_collection, write_rankings

HOSTILE = "<script>alert(1)</script>"
QUERIES, TOP = 6, 3


def write_judged_run(folder: Path) -> Path:
    """Writes a folder of runs with one run of two pipelines. One document's title and one query hold a script.

    The text of f1 has a `|`, which separates the cells of Markdown.
    """
    shop = write_collection(folder / "shop", QUERIES, grade=3)
    corpus, queries = shop / "corpus.jsonl", shop / "queries.jsonl"
    texts = corpus.read_text().replace('"_id": "f0", "title": ""', f'"_id": "f0", "title": "{HOSTILE}"')
    corpus.write_text(texts.replace('"filler 1"', '"filler | 1"'))
    queries.write_text(queries.read_text().replace("question 0", f"{HOSTILE} question 0"))
    files = {
        name: write_rankings(folder / f"{name}.trec", {number: ranks[number] for number in range(QUERIES)})
        for name, ranks in (("bad", BAD), ("good", GOOD))
    }
    run = import_runs(folder / "runs", files, shop, split="test", name=None, depth=10)
    quality_step(run)
    report_step(run)
    return folder / "runs"


def hidden(page: httpx.Response) -> dict[str, str]:
    """Returns the hidden fields of a page of one form."""
    fields = re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', page.text)
    return {name: html.unescape(value) for name, value in fields}


async def begun(client: httpx.AsyncClient, run: str, **fields: str) -> str:
    """Makes a session of both pipelines by the form; returns where the first pair is."""
    form = await client.get(f"/judge?runs={run}")
    pipelines = [f"{run}:bad", f"{run}:good"]
    asked = {"top": str(TOP), "seed": "7", "judge": "ann", "order": "pool", **fields}
    filled_in = {**hidden(form), "runs": run, "pipelines": pipelines, **asked}
    answer = await followed(client, await client.post("/judge", data=filled_in))
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"])


async def judged(client: httpx.AsyncClient, path: str, *deeds: str) -> httpx.Response:
    """Presses buttons, one pair after another; returns the page after the last."""
    page = await client.get(path)
    for deed in deeds:
        answer = await client.post(path.partition("?")[0], data={**hidden(page), "deed": deed})
        assert answer.status_code == 303, answer.text
        page = await client.get(answer.headers["location"])
    return page


def session_of(path: str) -> str:
    """Returns the session of the address of a pair."""
    return path.split("/")[2]


async def measured(client: httpx.AsyncClient, run: str, data: dict[str, str]) -> httpx.Response:
    """Presses the button that measures a run, and waits as its page does; returns what follows."""
    return await followed(client, await client.post(f"/measure/{run}", data=data))


async def followed(client: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    """Loads what a page leads to by itself, until one has what was waited for."""
    while (waiting := answer.headers.get("refresh", "")).startswith("2; url="):
        answer = await client.get(waiting.partition("url=")[2])
    return answer
