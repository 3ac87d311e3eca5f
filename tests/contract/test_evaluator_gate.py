"""The exit status of `compare` is the gate's."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from tests.support.simulated_runs import FAIR, GOOD, write_collection, write_rankings, write_three_rankings

Compare = Callable[..., Result]


@pytest.fixture
def evaluator(tmp_path: Path) -> Compare:
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], env={"EVALUATOR_RUNS": str(tmp_path / "runs")})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "shop")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return write_three_rankings(tmp_path)


@pytest.mark.parametrize(("second", "status"), [("good", 0), ("bad", 4)])
def test_the_gate_exits_with_4_unless_nothing_is_worse(
    evaluator: Compare, files: dict[str, Path], shop: Path, second: str, status: int
) -> None:
    done = evaluator("compare", files["fair"], files[second], "--dataset", shop, "--no-worse-than", "0.01")
    assert done.exit_code == status, done.output
    words = f"{second} is not worse than fair by 0.01 or more in nDCG@10 (95 % interval from "
    assert (f"Gate passed: {words}" if status == 0 else f"Gate failed: not shown that {words}") in done.stdout


@pytest.mark.parametrize("lossy", ["fair", "good"])
def test_the_gate_fails_where_either_side_lost_queries(
    evaluator: Compare, tmp_path: Path, files: dict[str, Path], shop: Path, lossy: str
) -> None:
    ranks = {"fair": FAIR, "good": GOOD}[lossy]
    write_rankings(files[lossy], {n: rank for n, rank in ranks.items() if n < 20})
    done = evaluator("compare", files["fair"], files["good"], "--dataset", shop, "--no-worse-than", "0.5")
    assert done.exit_code == 4, done.output
    assert f"Gate failed: {lossy}: LOST 40 of 60 queries (not_in_file 40), which count as 0; it comp" in done.stdout


def test_a_closed_pipe_leaves_the_status_of_the_gate(
    files: dict[str, Path], shop: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = ["compare", str(files["fair"]), str(files["bad"]), "--dataset", str(shop), "--no-worse-than", "0.01"]
    with open(writing, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        assert app(words, standalone_mode=False) == 4
    assert capfd.readouterr().err == ""
