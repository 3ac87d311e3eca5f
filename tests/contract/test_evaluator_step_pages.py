"""The pages of an attribution and of a replay: those of the service, and the files in the run's folder."""

import asyncio
import html
import json
import re
import shutil
from pathlib import Path

import pytest

from evaluator.attribution.attribution_page import attribution_page
from evaluator.attribution.attribution_report import AttributionReport
from evaluator.errors import GATEWAY, EvaluationError, command_line
from evaluator.pages.html_page import Page
from evaluator.pages.page_blocks import Listing, Table
from evaluator.replay.tuning import replay_step
from evaluator.replay.tuning_page import replay_page
from evaluator.replay.tuning_report import ReplayReport
from evaluator.report.evaluation import quality_step
from evaluator.runs.run_folder import RunFolder
from services.chassis.page_headers import PAGE_HEADERS
from tests.support.attributed_runs import replayed_run
from tests.support.charted_blocks import tables_of
from tests.support.evaluator_service import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import planned

PIPELINES = ["bm25", "hybrid", "hybrid-rerank"]
STEPS = ("attribution", "replay")
TABLES = {"attribution": ["fates", "waterfall", "legs"], "replay": ["tuned", "choice"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was attributed and replayed once; tests change copies."""
    place = tmp_path_factory.mktemp("made")
    return asyncio.run(replayed_run(place / "runs", planned(place, pipelines=PIPELINES))).path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(made, tmp_path / "runs" / made.name)))


def page_of(folder: RunFolder, step: str) -> Page:
    if step == "replay":
        return replay_page(folder.read("replay.json", ReplayReport))
    return attribution_page(folder.read("attribution.json", AttributionReport))


def cells(table: Table) -> list[str]:
    return [cell.strip("`") for row in table.rows for cell in row if cell]


def test_candidates_of_which_a_list_is_missing_are_refused_with_the_command_that_collects_them(
    folder: RunFolder,
) -> None:
    lines = folder.path / "candidates.jsonl"
    records = [{**json.loads(line), "legs": {}} for line in lines.read_text().splitlines()]
    lines.write_text("".join(json.dumps(record) + "\n" for record in records))
    report = json.loads((folder.path / "candidates.json").read_text())
    made_from = report["made_from"] | folder.hashes("candidates.jsonl")
    (folder.path / "candidates.json").write_text(json.dumps(report | {"made_from": made_from}))
    with pytest.raises(EvaluationError) as refused:
        replay_step(folder)
    assert f"run `{command_line('attribute', str(folder.path))}` again" in str(refused.value)


async def test_the_page_of_a_run_links_those_of_its_attribution_and_its_replay(folder: RunFolder) -> None:
    links = {step: f'href="/{step}/{folder.name}"' for step in STEPS}
    async with evaluator(GatewayStub(), folder.runs) as client:
        both = await client.get(f"/runs/{folder.name}")
        (folder.path / "replay.json").unlink()
        one = await client.get(f"/runs/{folder.name}")
        (folder.path / "report.json").unlink()
        without_report = await client.get(f"/runs/{folder.name}")
    assert [link in both.text for link in links.values()] == [True, True]
    assert [link in one.text for link in links.values()] == [True, False]
    assert [link in without_report.text for link in links.values()] == [True, False]


@pytest.mark.parametrize("step", STEPS)
async def test_a_page_shows_charts_and_every_cell_of_its_tables(folder: RunFolder, step: str) -> None:
    async with evaluator(GatewayStub(), folder.runs) as client:
        page = await client.get(f"/{step}/{folder.name}")
    expected = page_of(folder, step)
    assert (page.status_code, page.text.count("<svg viewBox")) == (200, len(expected.svgs))
    assert f'<a href="/runs/{folder.name}">' in page.text
    assert [one.name for one in tables_of(expected.blocks)] == TABLES[step]
    for table in tables_of(expected.blocks):
        assert all(cell in html.unescape(page.text) for cell in cells(table))
    assert all(page.headers[name] == value for name, value in PAGE_HEADERS.items())


@pytest.mark.parametrize(("step", "command"), [("attribution", "attribute"), ("replay", "replay")])
async def test_a_step_that_was_not_called_is_not_found_and_the_command_is_named(
    folder: RunFolder, step: str, command: str
) -> None:
    (folder.path / f"{step}.json").unlink()
    async with evaluator(GatewayStub(), folder.runs) as client:
        absent = await client.get(f"/{step}/{folder.name}")
        unknown = await client.get(f"/{step}/20260101T000000Z-small-0123abcd")
        outside = await client.get(f"/{step}/%2e%2e/{folder.runs.name}/{folder.name}")
    named = command_line(command, folder.name, gateway="http://gateway" if command == "attribute" else GATEWAY)
    assert (absent.status_code, f"<code>{named}</code>" in absent.text) == (404, True)
    assert (unknown.status_code, outside.status_code) == (404, 404)


async def test_a_page_by_other_judgments_than_the_figures_is_refused_and_says_what_to_do(
    folder: RunFolder, tmp_path: Path
) -> None:
    more = tmp_path / "more.qrels"
    more.write_text("q1\t0\td4\t2\n")
    quality_step(folder, added=[more])
    async with evaluator(GatewayStub(), folder.runs) as client:
        for step, command in (("attribution", "attribute"), ("replay", "replay")):
            page = await client.get(f"/{step}/{folder.name}")
            assert page.status_code == 409
            assert f"quality.json is not the one that {step}.json was made from" in page.text
            assert f"evaluator {command} {folder.path.name}" in page.text


@pytest.mark.parametrize("step", STEPS)
def test_a_file_beside_the_markdown_shows_the_same_and_loads_nothing(folder: RunFolder, step: str) -> None:
    page = (folder.path / f"{step}.html").read_text(encoding="utf-8")
    markdown = (folder.path / f"{step}.md").read_text(encoding="utf-8")
    expected = page_of(folder, step)
    listings = [block.text for block in expected.blocks if isinstance(block, Listing)]
    assert len(listings) == (step == "replay")
    for text in [*listings, *(cell for table in tables_of(expected.blocks) for cell in cells(table))]:
        assert (text in html.unescape(page), text in markdown) == (True, True)
    headings = [re.sub("<[^>]+>", "", one) for one in re.findall("<h2[^>]*>(.*?)</h2>", page)]
    assert headings == re.findall(r"^## (.*)$", markdown, re.MULTILINE)
    assert "default-src 'none'" in page
    assert not re.search(r"<(script|link|iframe|object|img)\b|\bsrc=", page)
    assert all((folder.path / path).read_text(encoding="utf-8") == svg for path, svg in expected.svgs.items())
