"""The pictures of a run for a document: readable on light and dark pages, with tables, and named after their run."""

import asyncio
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.cli import app
from evaluator.errors import EvaluationError
from evaluator.pages.svg_chart import COLOURS, DARK, LIGHT
from evaluator.report.pictures import DIFFERENCES, PAGE, QUALITY_LATENCY, pictures
from evaluator.report.report import Report
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import evaluated, planned
from tests.support.svg_reading import texts
from tests.support.valid_times import with_timing_valid

COLOURED = tuple(f"c{number}" for number in range(COLOURS))
RUN = "20260101T000000000Z-small-0123abcd"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, RunFolder]:
    directory = tmp_path_factory.mktemp("pictures")
    experiment = planned(directory, pipelines=["bm25", "dense", "hybrid"])
    report, folder = asyncio.run(evaluated(GatewayStub(approximate_misses=1), experiment, directory))
    quiet = with_timing_valid(report)
    folder.write("report.json", quiet)
    return quiet, folder


def test_one_command_writes_both_pictures_and_the_page_that_names_their_run(
    run: tuple[Report, RunFolder], tmp_path: Path
) -> None:
    report, folder = run
    to = tmp_path / "docs" / "pictures"
    done = CliRunner().invoke(app, ["pictures", str(folder.path), "hybrid", "--to", str(to)])
    assert (done.exit_code, done.stdout.strip()) == (0, str(to / PAGE))
    assert {path.name for path in to.iterdir()} == {QUALITY_LATENCY, DIFFERENCES, PAGE}
    page = (to / PAGE).read_text(encoding="utf-8")
    assert f"`{folder.name}`" in page
    assert str(report.manifest.git_commit) in page
    assert str(folder.path.parent) not in page
    assert all((to / name).exists() for name in re.findall(r"\]\(([^)]+)\)", page))
    assert max(len(line) for line in page.splitlines() if not line.startswith("|")) <= 120


def test_a_picture_is_drawn_for_light_and_for_dark_pages_on_a_background_of_its_own(
    run: tuple[Report, RunFolder],
) -> None:
    files = pictures(RUN, run[0], "hybrid")
    for name in (QUALITY_LATENCY, DIFFERENCES):
        style = re.search(r"<style>(.*?)</style>", files[name])
        assert style is not None
        light, dark = style[1].split("@media (prefers-color-scheme:dark)")
        assert f"--paper:{LIGHT['paper']}" in light
        assert f"--paper:{DARK['paper']}" in dark.partition("@media print")[0]
        assert '<rect class="paper" width="100%" height="100%"' in files[name]
        # What takes its colour from none of the palette's classes is black on a dark page too.
        looks = [look.split() for look in re.findall(r'class="([^"]+)"', files[name])]
        assert [look for look in looks if {"line", "mark"} & set(look) and not set(COLOURED) & set(look)] == []
    assert {"bm25", "dense", "hybrid"} <= {text.split(" ")[0] for text in texts(files[QUALITY_LATENCY])}
    assert "hybrid against bm25" in texts(files[DIFFERENCES])
    assert "dense against bm25" not in texts(files[DIFFERENCES])


@pytest.mark.parametrize(
    ("change", "pipeline", "said"),
    [
        ({"valid": False, "warnings": ("2 queries were lost",)}, "hybrid", "2 queries were lost"),
        ({"timing_valid": False, "timing_reasons": ("steal 3 %",)}, "hybrid", "steal 3 %"),
        ({}, "bm25", "dense, hybrid"),
    ],
)
def test_a_picture_of_figures_that_do_not_hold_is_refused(
    run: tuple[Report, RunFolder], change: dict[str, object], pipeline: str, said: str
) -> None:
    with pytest.raises(EvaluationError, match=re.escape(said)):
        pictures(RUN, run[0].model_copy(update=change), pipeline)
