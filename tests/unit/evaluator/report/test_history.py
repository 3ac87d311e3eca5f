"""A history names the run after which a pipeline became worse, and a slow decline that no two neighbours show."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluator.errors import EvaluationError, command_line
from evaluator.report.evaluation import quality_step
from evaluator.report.history import ExperimentHistory, HistoryEntry, history, render_history
from evaluator.report.report_step import report_step
from evaluator.steps.run_import import import_runs

QUERIES = 60


@pytest.fixture(autouse=True)
def numbers(tmp_path: Path) -> Path:
    """A collection of 60 queries with one relevant document each."""
    directory = tmp_path / "numbers"
    (directory / "qrels").mkdir(parents=True)
    documents = [json.dumps({"_id": f"d{at}", "text": f"number {at}"}) for at in range(QUERIES)]
    queries = [json.dumps({"_id": f"q{at}", "text": f"which one is {at}"}) for at in range(QUERIES)]
    (directory / "corpus.jsonl").write_text("\n".join(documents))
    (directory / "queries.jsonl").write_text("\n".join(queries))
    (directory / "qrels" / "test.tsv").write_text("".join(f"q{at}\td{at}\t1\n" for at in range(QUERIES)))
    return directory


def add_run(tmp_path: Path, second: int, missing: int = 0, depth: int = 100, arm: str = "bm25") -> str:
    """Adds a run that finds the relevant document of `second` queries at rank 2, of the others at rank 1."""
    lines = []
    for at in range(missing, QUERIES):
        hits = [f"d{(at + 1) % QUERIES}", f"d{at}"] if at < second else [f"d{at}", f"d{(at + 1) % QUERIES}"]
        lines += [f"q{at} Q0 {hit} 0 {-rank} x\n" for rank, hit in enumerate(hits)]
    path = tmp_path / "file.trec"
    path.write_text("".join(lines))
    directory = tmp_path / "numbers"
    folder = import_runs(tmp_path / "runs", {arm: path}, directory, split="test", name="nightly", depth=depth)
    quality_step(folder)
    report_step(folder)
    return folder.path.name


def nightly(tmp_path: Path) -> ExperimentHistory:
    return history(tmp_path / "runs", "nightly", "nDCG@10")


def only(listed: ExperimentHistory) -> Sequence[HistoryEntry]:
    (entries,) = listed.pipelines.values()
    return entries


def test_runs_are_listed_by_time_with_the_verdict_against_the_one_before(tmp_path: Path) -> None:
    names = [add_run(tmp_path, second) for second in (0, 0, 30)]
    entries = only(nightly(tmp_path))
    assert [entry.measured.run for entry in entries] == names
    assert [entry.against_previous and entry.against_previous.outcome for entry in entries] == [None, "same", "worse"]
    worse = entries[2].against_previous
    assert worse is not None
    assert (worse.first, worse.second, worse.losses) == (names[1], names[2], 30)


def test_a_slow_decline_is_seen_against_the_first_and_the_best(tmp_path: Path) -> None:
    names = [add_run(tmp_path, second) for second in (4, 1, 4, 7, 10)]
    last = only(nightly(tmp_path))[-1]
    assert last.against_previous is not None
    assert last.against_best is not None
    assert last.against_first is not None
    assert last.against_previous.outcome != "worse"
    assert (last.against_best.first, last.against_best.outcome) == (names[1], "worse")
    assert last.against_first.first == names[0]


def test_a_run_that_is_not_valid_is_listed_but_nothing_is_compared_with_it(tmp_path: Path) -> None:
    names = [add_run(tmp_path, 0), add_run(tmp_path, 0, missing=20), add_run(tmp_path, 0)]
    first, lossy, after = only(nightly(tmp_path))
    assert (lossy.measured.report.valid, lossy.against_previous) == (False, None)
    assert "LOST 20 of 60 queries" in lossy.measured.report.warnings[0]
    assert after.against_previous is not None
    assert (after.against_previous.first, after.against_previous.outcome) == (names[0], "same")
    assert first.against_previous is None


def test_runs_of_another_depth_or_other_judgments_are_a_history_of_their_own(tmp_path: Path) -> None:
    add_run(tmp_path, 0)
    add_run(tmp_path, 0, depth=10)
    with (tmp_path / "numbers" / "qrels" / "test.tsv").open("a") as qrels:
        qrels.write("q0\td5\t1\n")
    add_run(tmp_path, 0)
    listed = nightly(tmp_path).pipelines
    assert [(conditions.depth, len(entries)) for conditions, entries in listed.items()] == [(100, 1), (10, 1), (100, 1)]


def test_a_run_without_a_report_is_named_with_the_step_that_is_missing(tmp_path: Path) -> None:
    add_run(tmp_path, 0)
    unfinished = tmp_path / "runs" / add_run(tmp_path, 0)
    (unfinished / "report.json").unlink()
    report = nightly(tmp_path)
    assert len(only(report)) == 1
    assert "no report.json; run " in report.left_out[unfinished.name]
    assert f"Not listed: {unfinished.name}: " in render_history(report)


def test_a_history_of_stale_reports_alone_names_their_faults_and_no_other_experiments(tmp_path: Path) -> None:
    run = add_run(tmp_path, 0)
    (tmp_path / "runs" / run / "rank.json").write_text("{}")
    with pytest.raises(EvaluationError, match=f"no run of nightly can be listed: {run}: (?!.*there are runs of)"):
        nightly(tmp_path)


def test_the_page_shows_figures_verdicts_and_the_sentences_of_the_last_run(tmp_path: Path) -> None:
    first, last = add_run(tmp_path, 0), add_run(tmp_path, 30)
    page = render_history(nightly(tmp_path))
    assert page.startswith("bm25, imported: numbers, split test, 60 queries, rankings 100 deep")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| 2")]
    assert [row[3] for row in rows] == ["1.0000", "0.8155"]
    assert rows[0][4:7] == ["", "", ""]
    assert rows[1][4:7] == ["worse -0.1845"] * 3
    assert page.count(f"{last} is worse than {first}: nDCG@10 -0.1845 (95 % interval ") == 1


def test_an_unknown_experiment_or_metric_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    add_run(tmp_path, 0)
    with pytest.raises(EvaluationError, match=r"weekly.*nightly$"):
        history(tmp_path / "runs", "weekly", "nDCG@10")
    with pytest.raises(EvaluationError, match=r"nDCG@7.*MRR@10"):
        history(tmp_path / "runs", "nightly", "nDCG@7")


def test_a_folder_that_holds_a_load_alone_is_not_told_to_be_reported(tmp_path: Path) -> None:
    add_run(tmp_path, 0)
    loaded, interrupted = (tmp_path / "runs" / add_run(tmp_path, 0) for _ in range(2))
    shutil.rmtree(loaded / "answers")
    for run in (loaded, interrupted):
        (run / "rank.json").unlink()
        (run / "imported.json").unlink()
        (run / "report.json").unlink()
    left_out = nightly(tmp_path).left_out
    assert list(left_out) == [interrupted.name]
    assert f"no rank.json; run `{command_line('rank', '--run', str(interrupted))}`" in left_out[interrupted.name]


@pytest.mark.parametrize("damage", ["edited", "a folder"])
def test_a_run_whose_figures_are_damaged_is_left_out_with_the_reason(tmp_path: Path, damage: str) -> None:
    whole, damaged = add_run(tmp_path, 0), add_run(tmp_path, 30)
    file = tmp_path / "runs" / damaged / "quality" / "bm25.jsonl"
    text = file.read_text()
    file.unlink()
    if damage == "a folder":
        file.mkdir()
    else:
        file.write_text(text.replace("0.63", "0.93"))
    report = nightly(tmp_path)
    assert [entry.measured.run for entry in only(report)] == [whole]
    assert "quality/bm25.jsonl" in report.left_out[damaged]


@pytest.mark.parametrize("valid", [True, False])
def test_times_are_marked_where_those_of_their_run_do_not_hold(tmp_path: Path, valid: bool) -> None:
    file = tmp_path / "runs" / add_run(tmp_path, 0) / "report.json"
    report = json.loads(file.read_text())
    report["pipelines"]["bm25"]["latency_ms"] |= {"p50": 12.0, "p95": 34.0}
    file.write_text(json.dumps(report | {"timing_valid": valid}))
    shown = render_history(nightly(tmp_path))
    assert [f"{ms}?" in shown for ms in ("12.0", "34.0")] == [not valid] * 2
    assert ("not valid" in shown) == (not valid)
