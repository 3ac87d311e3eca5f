"""Serves the evaluator's pages on a port over stubs of backends, writes a small collection, checks what is shown."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page

from evaluator.experiments.experiment import bundled_directory
from evaluator.service.app import build_app
from evaluator.settings import EvaluatorSettings
from tests.support.backends import opened_stack
from tests.support.browser_pages import accessibility_violations, figures_out_of_sight, overflow_px
from tests.support.served import on_a_port

SCRIPT = "<script>document.title = 'it ran'</script>"
QUERIES = 6


def write_part(directory: Path) -> Path:
    """Writes a part of our own collection: six queries, their documents, and the judgments above 0 of each.

    What was judged 0 is unjudged here. A title and a query hold a script.
    """
    whole = bundled_directory().parent / "collections" / "bicycle-workshop"
    (directory / "qrels").mkdir(parents=True)
    header, *lines = (whole / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    judged = [line.split("\t") for line in lines]
    asked = list(dict.fromkeys(query for query, _, _ in judged))[:QUERIES]
    judged = [parts for parts in judged if parts[0] in asked]
    documents = {document for _, document, _ in judged}
    for name, kept in (("corpus", documents), ("queries", set(asked))):
        with (whole / f"{name}.jsonl").open(encoding="utf-8") as file:
            found = [one for one in map(json.loads, file) if one["_id"] in kept]
        field = "title" if name == "corpus" else "text"
        found[0][field] = f"{SCRIPT} {found[0][field]}"
        text = "".join(json.dumps(one) + "\n" for one in found)
        (directory / f"{name}.jsonl").write_text(text, encoding="utf-8")
    relevant = ["\t".join(parts) for parts in judged if int(parts[2]) > 0]
    (directory / "qrels" / "test.tsv").write_text(header + "".join(relevant), encoding="utf-8")
    return directory


def hostile_copy(collection: Path) -> Path:
    """Returns the folder of a copy whose name holds a script."""
    hostile = collection.parent / SCRIPT.replace("/", "")
    if not hostile.exists():
        shutil.copytree(collection, hostile)
    return hostile


@asynccontextmanager
async def evaluator_on_a_port(runs: Path, datasets: Path) -> AsyncIterator[str]:
    """Yields the address of the service, which serves the folder `datasets`.

    Its gateway is on a port too: load generators are processes.
    """
    async with opened_stack(ingested=False) as stack, on_a_port(stack.app) as gateway:
        app = build_app(EvaluatorSettings(runs=runs, gateway_url=gateway, datasets=(datasets,)))
        async with app.router.lifespan_context(app), on_a_port(app) as address:
            yield address


async def expect_sound(page: Page) -> None:
    """Checks what holds for every page: axe finds nothing, it does not scroll sideways, no text of data was run.

    Every figure is in the window, or in a box that shows in words that it scrolls. What is folded is opened for this,
    and closed again.
    """
    closed = await page.locator("details:not([open])").element_handles()
    for opened in (False, True):
        for fold in closed:
            await fold.evaluate("(one, opened) => { one.open = opened }", opened)
        violations = await accessibility_violations(page)
        assert violations == [], f"{page.url}: {violations}"
        assert await overflow_px(page) == 0, page.url
        hidden = await figures_out_of_sight(page)
        assert hidden == [], f"{page.url}: {len(hidden)} figures are out of sight: {hidden[:5]}"
        if not closed:
            break
    for fold in closed:
        await fold.evaluate("one => { one.open = false }")
    assert await page.title() != "it ran"
