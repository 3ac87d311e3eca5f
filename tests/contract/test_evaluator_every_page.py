"""Every page of the service over one run is there, in the order of a reader who compares and judges."""

import html
import re
from pathlib import Path

from evaluator.report.evaluation import quality_step
from evaluator.report.report_step import report_step
from tests.support.evaluator_service import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.judging_pages import followed, hidden, judged, session_of
from tests.support.large_run import RunSize, write_large_run

LINK = re.compile(r'href="(/[^"#]+)"')


async def test_a_reader_gets_every_page_of_a_run_its_comparison_and_its_judging(tmp_path: Path) -> None:
    folder = write_large_run(tmp_path, 7, RunSize(queries=12, pipelines=3, depth=10))
    quality_step(folder)
    report_step(folder)
    run = folder.path.name
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:

        async def waited(path: str) -> str:
            for _ in range(200):
                answer = await client.get(path)
                if "refresh" not in answer.headers:
                    assert answer.status_code == 200, f"{path}: {answer.text[:2_000]}"
                    return answer.text
            raise AssertionError(f"{path} was not there")

        pages = [await waited(path) for path in ("/", "/new", "/judge", f"/runs/{run}", f"/compare?runs={run}")]
        form = await client.get(f"/judge?runs={run}")
        pipelines = re.findall(r'name="pipelines" value="([^"]+)"', form.text)
        fields = {**hidden(form), "pipelines": pipelines, "top": "10", "seed": "7", "judge": "ann", "order": "pool"}
        first = (await followed(client, await client.post("/judge", data=fields))).headers["location"]
        pages.append((await judged(client, first, "1", "skip", "0")).text)
        session = f"/judge/{session_of(first)}"
        pages += [await waited(f"{session}/pair?judge=bob&order=impact"), await waited(session)]
        links = {html.unescape(link) for page in pages for link in LINK.findall(page)}
        for link in sorted(links):
            await waited(link)
