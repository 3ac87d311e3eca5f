"""Every page of the service over one run is there, in the order of a reader who compares and judges.

How long each takes with thousands of queries is timed by `tests/soak/pages.py`, of which this is a small part.
"""

from pathlib import Path

from evaluator.evaluation import quality_step
from evaluator.report.report_step import report_step
from tests.soak.pages import REPEATS, read_every_page
from tests.support.evaluator_service import evaluator
from tests.support.gateway_stub import GatewayStub
from tests.support.large_run import RunSize, write_large_run


async def test_a_reader_gets_every_page_of_a_run_its_comparison_and_its_judging(tmp_path: Path) -> None:
    folder = write_large_run(tmp_path, 7, RunSize(queries=12, pipelines=3, depth=10))
    quality_step(folder)
    report_step(folder)
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        pages = {page.name: page for page in await read_every_page(client, folder.path.name)}
    assert len(pages["a run"].seconds) == REPEATS
    computed = [page.name for page in pages.values() if page.computed_s is not None]
    assert computed == [
        "comparison of its pipelines",
        "a new session",
        "first pair of a judge",
        "first pair, order of impact",
        "a session: progress, agreement, disputed pairs",
        "outlook of a session",
        "a run, measured by a session",
    ]
