"""`compare` takes runs, pipelines and run files; says first what they do not share. Its exit status is the gate's."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluator.__main__ import app
from evaluator.comparison.compared_rankings import resolve_compared
from evaluator.datasets.catalogue import load_catalogue
from evaluator.runs.run_folder import RunFolder
from tests.support.simulated_runs import FAIR, GOOD, ranked_by, write_collection, write_rankings, write_three_rankings
from tests.support.small_runs import Evaluator


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "shop")


@pytest.fixture
def files(tmp_path: Path, shop: Path) -> dict[str, Path]:
    return write_three_rankings(tmp_path)


@pytest.fixture
def imported(evaluator: Evaluator, shop: Path, tmp_path: Path) -> Callable[..., Path]:
    def done(*files: Path, dataset: Path = shop) -> Path:
        before = {*(tmp_path / "runs").glob("2*")}
        result = evaluator("import", dataset, *files)
        assert result.exit_code in (0, 3), result.output
        (fresh,) = {*(tmp_path / "runs").glob("2*")} - before
        return fresh

    return done


def rank_again(run: Path, **fields: object) -> None:
    """Writes rank.json anew, as a step that saw the files of the run as they are now."""
    ranked = json.loads((run / "rank.json").read_text()) | fields
    made_from = RunFolder(run).hashes(*ranked["made_from"])
    (run / "rank.json").write_text(json.dumps(ranked | {"made_from": made_from}))


def test_two_run_files_are_compared_over_a_dataset(evaluator: Evaluator, files: dict[str, Path], shop: Path) -> None:
    done = evaluator("compare", files["bad"], files["good"], "--dataset", shop)
    assert done.exit_code == 0, done.output
    assert "good is better than bad: nDCG@10 +0.4" in done.stdout
    assert "60 queries." in done.stdout


def test_a_run_is_compared_with_its_own_first_pipeline(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path]
) -> None:
    run = imported(files["fair"], files["good"], files["bad"])
    report = json.loads(evaluator("compare", run, "--json").stdout)
    assert [(pair["verdict"]["first"], pair["verdict"]["second"]) for pair in report["pairs"]] == [
        ("fair", "good"),
        ("fair", "bad"),
    ]
    assert [pair["verdict"]["outcome"] for pair in report["pairs"]] == ["better", "worse"]
    # All pairs of the run are one family, and the report states the same of them.
    assert {pair["verdict"]["family"] for pair in report["pairs"]} == {3}
    reported = json.loads((run / "report.json").read_text())["pipelines"]
    alone = json.loads(evaluator("compare", f"{run}:fair", f"{run}:bad", "--json").stdout)["pairs"]
    for pair in (*report["pairs"], *alone):
        assert pair["verdict"] == reported[pair["verdict"]["second"]]["against_first"]
    assert report["notes"] == []


def test_two_runs_are_compared_pipeline_by_pipeline(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path]
) -> None:
    first = imported(files["fair"], files["good"])
    second = imported(f"fair={files['bad']}", files["good"])
    report = json.loads(evaluator("compare", first, second, "--json").stdout)
    assert [(pair["verdict"]["second"], pair["verdict"]["outcome"]) for pair in report["pairs"]] == [
        (f"{second.name}:fair", "worse"),
        (f"{second.name}:good", "same"),
    ]


def test_slices_follow_the_metadata_of_the_queries(
    evaluator: Evaluator, tmp_path: Path, files: dict[str, Path], shop: Path
) -> None:
    half = write_rankings(tmp_path / "half.trec", ranked_by(lambda n: 1 if n % 2 else 2 + n % 3))
    report = json.loads(evaluator("compare", files["fair"], half, "--dataset", shop, "--json").stdout)
    assert [(part["field"], part["value"]) for part in report["slices"]] == [("kind", "long"), ("kind", "short")]
    long, short = (part["differences"][0] for part in report["slices"])
    assert (long["queries"], short["queries"]) == (30, 30)
    assert long["difference"] == 0.0 < short["interval"][0]


def test_queries_that_no_slice_holds_are_counted(evaluator: Evaluator, files: dict[str, Path], shop: Path) -> None:
    lines = [json.loads(line) for line in (shop / "queries.jsonl").read_text().splitlines()]
    lines[0]["metadata"] = {}
    (shop / "queries.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = evaluator("compare", files["fair"], files["good"], "--dataset", shop)
    assert "Note: 59 of 60 queries have `kind`; its slices leave out the others." in done.stdout


def test_gains_and_losses_stand_with_query_titles_grades_and_ranks(
    evaluator: Evaluator, tmp_path: Path, files: dict[str, Path], shop: Path
) -> None:
    changed = write_rankings(tmp_path / "changed.trec", {**FAIR, 7: 1, 12: None})
    report = json.loads(evaluator("compare", files["fair"], changed, "--dataset", shop, "--json").stdout)
    (gain,), (loss,) = report["pairs"][0]["gains"], report["pairs"][0]["losses"]
    assert (gain["query"], gain["text"], loss["query"]) == ("q7", "question 7", "q12")
    assert gain["documents"][0] == {
        "id": "r7", "title": "Answer 7", "grade": 1, "first_rank": 3, "second_rank": 1,
    }  # fmt: skip
    assert loss["documents"][0]["second_rank"] is None
    assert loss["documents"][1]["title"].startswith("filler")


def test_other_judgments_are_refused(
    evaluator: Evaluator, tmp_path: Path, files: dict[str, Path], imported: Callable[..., Path]
) -> None:
    other = write_collection(tmp_path / "other", grade=2)
    done = evaluator("compare", imported(files["good"]), imported(files["fair"], dataset=other))
    assert done.exit_code == 1
    assert "were judged by different judgments" in done.stderr


def test_runs_over_different_datasets_are_refused_with_their_names(
    evaluator: Evaluator, tmp_path: Path, files: dict[str, Path], imported: Callable[..., Path]
) -> None:
    other = write_collection(tmp_path / "other", queries=59)
    first, second = imported(files["good"], files["bad"]), imported(files["fair"], dataset=other)
    done = evaluator("compare", first, second)
    assert done.stderr == (
        f"evaluator: {first.name} and {second.name} are runs over different datasets: {tmp_path / 'shop'} and {other}\n"
    )


def test_judgments_that_changed_since_are_refused(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path], shop: Path
) -> None:
    run = imported(files["good"], files["fair"])
    with (shop / "qrels" / "test.tsv").open("a") as file:
        file.write("q1\tf1\t1\n")
    done = evaluator("compare", run)
    assert done.exit_code == 1
    assert "changed since the queries ran" in done.stderr


def test_rankings_of_other_depths_are_cut_and_it_is_said_first(
    evaluator: Evaluator, tmp_path: Path, files: dict[str, Path], shop: Path
) -> None:
    short = write_rankings(tmp_path / "short.trec", FAIR, depth=10)
    done = evaluator("compare", files["fair"], short, "--dataset", shop)
    _, judged, note, verdict = done.stdout.split("\n\n")[:4]
    assert judged.startswith("Judged by test.tsv of the dataset (sha256 ")
    assert note == "Note: fair was ranked 20 deep and short 10: both are cut to 10."
    assert verdict.startswith("short is the same as fair: nDCG@10 +0.0000")
    assert "MAP@10 " in done.stdout
    assert "Recall@100" not in done.stdout


def test_a_metric_deeper_than_the_rankings_is_refused(evaluator: Evaluator, files: dict[str, Path], shop: Path) -> None:
    done = evaluator("compare", files["fair"], files["good"], "--dataset", shop, "--metric", "Recall@100")
    assert done.exit_code == 1
    assert "Recall@100 looks at 100 hits, but fair and good are compared 20 deep: give --metric" in done.stderr


def test_what_makes_a_report_not_valid_is_said_first(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path]
) -> None:
    with files["good"].open("a") as file:
        file.write("q1 Q0 elsewhere 21 -21 tag\nnobody Q0 r1 1 0 tag\n")
    done = evaluator("compare", files["fair"], imported(files["good"]))
    assert "Note: good: 1 of 1201 hits are NOT IN THE CORPUS: of another one?\n" in done.stdout, done.output
    assert "Note: good: 1 of 61 queries are NOT IN THE COLLECTION: of another one?\n" in done.stdout
    assert done.stdout.index("Note: ") < done.stdout.index("good is better than fair")


def test_runs_of_one_name_are_told_apart_by_their_paths(
    files: dict[str, Path], imported: Callable[..., Path], tmp_path: Path
) -> None:
    runs = [shutil.copytree(imported(files["fair"]), tmp_path / place / "shop") for place in ("old", "new")]
    ((first, second),) = resolve_compared([str(run) for run in runs], tmp_path, tmp_path, None, None)
    assert (first.label, second.label) == (f"{runs[0]}:fair", f"{runs[1]}:fair")


def test_a_suite_is_named_with_its_runs(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path], tmp_path: Path
) -> None:
    suite = tmp_path / "runs" / "suite"
    shutil.copytree(imported(files["fair"]), suite / "toy")
    (suite / "suite.json").touch()
    done = evaluator("compare", "suite", "suite/toy")
    assert done.stderr == "evaluator: suite holds several runs; name one of them: suite/toy\n"


def test_a_single_query_has_no_interval(evaluator: Evaluator, tmp_path: Path, imported: Callable[..., Path]) -> None:
    shop = write_collection(tmp_path / "single", queries=1)
    one, other = (write_rankings(tmp_path / f"{name}.trec", {0: at}) for name, at in (("one", 2), ("other", 1)))
    run = imported(one, other, dataset=shop)
    report = json.loads((run / "report.json").read_text())["pipelines"]
    assert (report["one"]["intervals"]["nDCG@10"], report["other"]["against_first"]["interval"]) == (None, None)
    done = evaluator("compare", run)
    assert "other is better" not in done.stdout
    assert "nDCG@10 +0.3691 (no interval). 1 query, too few" in done.stdout
    assert " to +" not in done.stdout


def test_lost_queries_count_as_0_and_are_said_first(
    evaluator: Evaluator, tmp_path: Path, files: dict[str, Path], shop: Path
) -> None:
    some = write_rankings(tmp_path / "some.trec", {n: rank for n, rank in GOOD.items() if n >= 10})
    report = json.loads(evaluator("compare", files["good"], some, "--dataset", shop, "--json").stdout)
    assert report["notes"] == ["some: LOST 10 of 60 queries (not_in_file 10), which count as 0"]
    assert report["pairs"][0]["verdict"]["losses"] == 10


def test_samples_are_compared_on_the_queries_that_they_share(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path]
) -> None:
    first, second = imported(files["fair"]), imported(files["good"])
    for run, low, high in ((first, 0, 40), (second, 20, 60)):
        experiment = json.loads((run / "experiment.json").read_text())
        (run / "experiment.json").write_text(json.dumps({**experiment, "queries": 40, "seed": low}))
        rank_again(run, queries=[f"q{n}" for n in range(low, high)])
        assert evaluator("quality", "--run", run).exit_code == 0
    done = evaluator("compare", first, second)
    assert "Note: fair was asked 40 queries and good 40, a sample of 40 with seed 0 and a sample" in done.stdout
    assert "20 queries." in done.stdout


NOT_COMPARABLE = {
    ("{run}", "--split", "test"): "--dataset",
    ("{run}", "--dataset", "{shop}"): "--dataset",
    ("nowhere",): "nowhere: neither a run folder",
    ("{fair}", "{good}"): "name a run too, or --dataset DIRECTORY",
    ("{run}:nothing", "{run}:good"): "'nothing'; it has fair, good",
    ("{run}:good", "{run}:good"): "good: named twice",
    ("{run}:fair", "{run}:good", "{run}:good"): "good: named twice",
    ("{run}:good", "{run}/:good"): "the same run twice",
    ("{run}:fair", "{run}:good", "{run}/:good"): "good: named twice",
    ("{run}:good",): "good alone",
    ("{run}", "--metric", "nDCG"): "'nDCG'",
    ("{run}", "--metric", "hole@10"): "judged@k",
    ("{run}", "--margin", "0"): "margin: ",
}


def test_what_cannot_be_compared_is_one_sentence(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path], shop: Path
) -> None:
    run = imported(files["fair"], files["good"])
    for words, says in NOT_COMPARABLE.items():
        done = evaluator("compare", *(word.format(run=run, shop=shop, **files) for word in words))
        assert (done.exit_code, done.stdout) == (1, ""), words
        assert says in done.stderr, words
        assert done.stderr.count("\n") == 1, words


def test_a_collection_is_named_as_in_the_catalogue(
    evaluator: Evaluator, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_collection(Path(load_catalogue().directories[0]) / "scifact")
    both = files["fair"], files["good"]
    for words in (("import", "scifact", *both), ("compare", *both, "--dataset", "scifact")):
        assert evaluator(*words).exit_code == 0, words


def test_a_report_has_intervals_and_the_verdict_against_the_first_pipeline(
    evaluator: Evaluator, files: dict[str, Path], imported: Callable[..., Path]
) -> None:
    run = imported(files["fair"], files["good"])
    report = json.loads((run / "report.json").read_text())["pipelines"]
    low, high = report["good"]["intervals"]["nDCG@10"]
    assert low < report["good"]["quality"]["nDCG@10"] < high
    assert (report["fair"]["against_first"], report["good"]["against_first"]["outcome"]) == (None, "better")
    for page in ((run / "report.md").read_text(), evaluator("report", "--run", run).stdout):
        assert f"\n{report['good']['against_first']['sentence']}\n" in page
        assert f"good {low:.4f} to {high:.4f}" in page


@pytest.mark.parametrize(("second", "status"), [("good", 0), ("bad", 4)])
def test_the_gate_exits_with_4_unless_nothing_is_worse(
    evaluator: Evaluator, files: dict[str, Path], shop: Path, second: str, status: int
) -> None:
    done = evaluator("compare", files["fair"], files[second], "--dataset", shop, "--no-worse-than", "0.01")
    assert done.exit_code == status, done.output
    words = f"{second} is not worse than fair by 0.01 or more in nDCG@10 (95 % interval from "
    assert (f"Gate passed: {words}" if status == 0 else f"Gate failed: not shown that {words}") in done.stdout


@pytest.mark.parametrize("lossy", ["fair", "good"])
def test_the_gate_fails_where_either_side_lost_queries(
    evaluator: Evaluator, tmp_path: Path, files: dict[str, Path], shop: Path, lossy: str
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
