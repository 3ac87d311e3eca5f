"""`analyse` makes the tables and figures of the paper from runs that were imported or ranked."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evaluator.analyses.analysing import analyse
from evaluator.client.client import connected
from evaluator.report.evaluation import evaluate
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.served import served
from tests.support.simulated_runs import BAD, FAIR, GOOD, write_collection, write_rankings
from tests.support.small_runs import Evaluator, planned

DATASETS = Path(__file__).resolve().parents[3] / "shared" / "datasets"
METRICS = "nDCG@10,hole@10,R_cap@100"


@pytest.fixture
def imported(evaluator: Evaluator, tmp_path: Path) -> Callable[..., Path]:
    """Imports rankings over a collection; returns the run's folder."""

    def done(dataset: Path, depth: int = 20, **ranks: dict[int, int | None]) -> Path:
        files = [write_rankings(tmp_path / f"{dataset.name}-{name}.trec", of, depth) for name, of in ranks.items()]
        before = {*(tmp_path / "runs").glob("2*-*")}
        named = [f"{name}={file}" for name, file in zip(ranks, files, strict=True)]
        result = evaluator("import", dataset, *named, "--metrics", METRICS)
        assert result.exit_code in (0, 3), result.output
        (fresh,) = {*(tmp_path / "runs").glob("2*")} - before
        return fresh

    return done


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "shop")


@pytest.fixture
def depot(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "depot", queries=20)


def figures_of(folder: Path) -> dict[str, Any]:
    analysis: dict[str, Any] = json.loads((folder / "analysis.json").read_text())
    return analysis


def rows_of(folder: Path, heading: str) -> list[list[str]]:
    """Returns the cells of the table whose heading begins so, the header first."""
    section = (folder / "analysis.md").read_text().partition(f"\n## {heading}")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    return [row for row in rows if set("".join(row)) - set("-:")]


def test_two_sets_give_tables_figures_a_page_and_json(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, depot: Path, tmp_path: Path
) -> None:
    first = imported(shop, bm25=FAIR, dense=GOOD)
    second = imported(depot, bm25=GOOD, dense=BAD)
    out = tmp_path / "out"
    done = evaluator("analyse", first.name, second, "--out", out)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{out / 'analysis.md'}\n"
    measured = {
        name: json.loads((run / "quality.json").read_text())["arms"]
        for name, run in (("shop", first), ("depot", second))
    }
    analysis = figures_of(out)
    for analysed in analysis["sets"]:
        for pipeline, figures in analysed["pipelines"].items():
            assert figures["ndcg_at_10"] == measured[analysed["name"]][pipeline]["nDCG@10"]
            assert figures["hole_at_10"] == measured[analysed["name"]][pipeline]["hole@10"]
    header, of_shop, of_depot, mean = rows_of(out, "Table 2: nDCG@10")
    assert (header, mean[0]) == (["set", "bm25", "dense"], "mean of 2 sets")
    assert float(mean[1]) == pytest.approx((float(of_shop[1]) + float(of_depot[1])) / 2, abs=1e-4)
    (dense,) = [summary for summary in analysis["summaries"] if summary["pipeline"] == "dense"]
    assert (dense["better"], dense["worse"]) == (["shop"], ["depot"])
    assert {path.name for path in (out / "figures").iterdir()} == {
        "figure-2-overlap.svg",
        "figure-3-differences.svg",
        "figures-4-5-lengths-shop.svg",
        "figures-4-5-lengths-depot.svg",
    }
    page = (out / "analysis.md").read_text()
    linked = re.findall(r"\]\((figures/[\w-]+\.svg)\)", page)
    assert sorted(linked) == sorted(f"figures/{path.name}" for path in (out / "figures").iterdir())
    # A figure stands below the table of what it shows.
    assert "![" in page.partition("## Figure 3")[2].partition("\n## ")[0]
    assert "give the new judgments with `--judgments SET=FILE`" in page
    # Rankings of 20 documents say nothing of the first 100.
    assert [row[1:] for row in rows_of(out, "Table 9")[1:]] == [["–", "–"], ["–", "–"]]
    assert "- shop: the rankings of bm25 are 20 documents deep, too few for this metric." in page
    assert "No mean: there is no set on which every pipeline has this figure." in page
    # The same runs give the same files.
    assert evaluator("analyse", first, second, "--out", tmp_path / "again").exit_code == 0
    written = [{path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.*")} for name in ("out", "again")]
    assert written[0] == written[1]


def test_every_pair_is_tested_fusions_are_tried_and_the_terminal_shows_ten_systems_and_a_verdict(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, tmp_path: Path
) -> None:
    run = imported(shop, **{"dense-bge": GOOD, "bm25": FAIR, "dense": BAD})
    done = evaluator("analyse", run, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert figures_of(tmp_path / "out")["pipelines"] == ["bm25", "dense", "dense-bge"]  # as in the paper
    header, *pairs = rows_of(tmp_path / "out", "pairs of pipelines")
    assert {(row[1], row[2]) for row in pairs} == {("dense-bge", "bm25"), ("dense-bge", "dense"), ("bm25", "dense")}
    assert all(float(row[header.index("p")]) < 0.05 for row in pairs)
    assert [row[2] for row in rows_of(tmp_path / "out", "the best fusions")[1:]] == ["3", "1"]
    assert len(re.findall(r"^\| shop ", done.stderr, re.MULTILINE)) == 10
    assert "shop: GenQ was not measured; it needs " in done.stderr
    verdict = next(line for line in done.stderr.splitlines() if "dense-bge is best" in line)
    assert verdict.startswith("shop: No answers were lost, none degraded.")
    page = (tmp_path / "out" / "analysis.md").read_text()
    assert verdict in page


def test_a_set_that_lacks_a_pipeline_is_shown_and_left_out_of_means(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, depot: Path, tmp_path: Path
) -> None:
    runs = imported(shop, bm25=FAIR, dense=GOOD), imported(depot, bm25=GOOD)
    assert evaluator("analyse", *runs, "--out", tmp_path / "out").exit_code == 0
    _, of_shop, of_depot, mean = rows_of(tmp_path / "out", "Table 2: nDCG@10")
    assert of_depot[2] == "–"
    assert mean == ["mean of 1 of 2 sets", *of_shop[1:]]
    page = (tmp_path / "out" / "analysis.md").read_text()
    assert "- **depot: not measured: dense.**" in page
    assert "- The mean is over shop: there every pipeline has a figure." in page


def test_added_judgments_give_the_figures_after(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, tmp_path: Path
) -> None:
    run = imported(shop, bm25=BAD)
    # f0 leads every ranking of BAD and nobody judged it.
    more, again = tmp_path / "more.tsv", tmp_path / "again.tsv"
    more.write_text("".join(f"q{n}\tf0\t1\n" for n in range(60)))
    again.write_text("q0\tf0\t2\n")
    judged = ["--judgments", more, "--judgments", again]
    done = evaluator("analyse", run, *judged, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    (figures,) = figures_of(tmp_path / "out")["sets"][0]["pipelines"].values()
    assert figures["hole_at_10"] == pytest.approx(0.9)
    assert figures["after"]["hole_at_10"] == pytest.approx(0.8)
    assert figures["after"]["ndcg_at_10"] > figures["ndcg_at_10"]
    assert "60 judgments added, 0 changed, 0 the same" in done.stderr
    assert "0 judgments added, 1 changed, 0 the same" in done.stderr
    assert rows_of(tmp_path / "out", "Table 4")[0][4:] == ["hole@10 after", "nDCG@10 after", "change"]

    evaluator("quality", "--run", run, "--judgments", more)
    done = evaluator("analyse", run, "--out", tmp_path / "again")
    said = f"shop: the report of {run.name} is by added judgments too; the figures here are by the set's own."
    assert said in done.stderr


def test_lost_queries_and_hits_of_another_corpus_are_reported(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, tmp_path: Path
) -> None:
    (shop / "corpus.jsonl").write_text(
        "".join(line for line in (shop / "corpus.jsonl").open() if '"f0"' not in line and '"f1"' not in line)
    )
    run = imported(shop, bm25=GOOD, dense=dict.fromkeys(range(50), 1))
    done = evaluator("analyse", run, "--out", tmp_path / "out")
    assert done.exit_code == 0
    assert "shop, dense: 10 queries were LOST; they count as 0." in done.stderr
    assert "shop, bm25: 120 of 1200 hits are NOT IN THE CORPUS: of another one?" in done.stderr
    assert rows_of(tmp_path / "out", "Figures 4 and 5")[2][-2:] == ["480", "120"]


def test_a_suite_stands_for_all_its_runs(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, depot: Path, tmp_path: Path
) -> None:
    suite = tmp_path / "runs" / "20261124T120000000Z-both-00000000"
    suite.mkdir(parents=True)
    members = []
    for dataset, ranks in ((shop, FAIR), (depot, GOOD)):
        run = imported(dataset, bm25=ranks).rename(suite / dataset.name)
        members.append({"name": dataset.name, "experiment": json.loads((run / "experiment.json").read_text())})
    (suite / "suite.json").write_text(json.dumps({"name": "both", "members": members}))
    done = evaluator("analyse", suite.name, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert [analysed["pipelines"]["bm25"]["run"] for analysed in figures_of(tmp_path / "out")["sets"]] == [
        f"{suite.name}/shop",
        f"{suite.name}/depot",
    ]
    (suite / "depot" / "rank.json").unlink()
    assert "no rank.json; run" in evaluator("analyse", suite).stderr


def test_without_a_place_it_lies_below_the_runs_and_is_no_run(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, tmp_path: Path
) -> None:
    run = imported(shop, bm25=FAIR)
    done = evaluator("analyse", run.name)
    page = Path(done.stdout.strip())
    assert page.parent.parent == tmp_path / "runs" / "analyses"
    assert page.is_file()
    assert evaluator("quality", "--run", page.parent).exit_code == 1


def test_a_pipeline_of_a_run_can_be_picked(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, tmp_path: Path
) -> None:
    old, new = imported(shop, bm25=FAIR, dense=BAD), imported(shop, dense=GOOD)
    both = evaluator("analyse", old, new, "--out", tmp_path / "out")
    assert both.exit_code == 1
    assert f"shop: {old.name} and {new.name} both have a pipeline dense; name the pipelines" in both.stderr
    done = evaluator("analyse", f"{old.name}:bm25", new, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert [figures["run"] for figures in figures_of(tmp_path / "out")["sets"][0]["pipelines"].values()] == [
        old.name,
        new.name,
    ]


def test_what_cannot_be_analysed_is_said_in_one_sentence(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, tmp_path: Path
) -> None:
    run = imported(shop, fair=FAIR)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").touch()
    for words, status, said in (
        ((run,), 2, "--baseline bm25: no pipeline of that name in these runs; there are fair"),
        ((run, "--baseline", "fair", "--out", tmp_path / "full"), 2, "full: it is there already"),
        (("nowhere",), 1, "nowhere: no run folder, here or in"),
        ((f"{run.name}:dense",), 1, "the run has no pipeline 'dense'; it has fair"),
    ):
        done = evaluator("analyse", *words)
        assert (done.exit_code, said in done.stderr.replace("\n", " ")) == (status, True), done.stderr


def test_a_corpus_that_changed_and_another_one_of_the_same_name_are_refused(
    evaluator: Evaluator, imported: Callable[..., Path], shop: Path, tmp_path: Path
) -> None:
    run = imported(shop, bm25=FAIR)
    with (shop / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "new", "title": "", "text": "one more"}\n')
    done = evaluator("analyse", run, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "corpus.jsonl changed since the queries ran; rank or import again" in done.stderr
    assert not (tmp_path / "out").exists()
    other = imported(write_collection(tmp_path / "elsewhere" / "shop", queries=20), dense=GOOD)
    done = evaluator("analyse", run, other, "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert "are over different files or splits; analyse them apart" in done.stderr


def test_a_set_as_published_has_the_published_figures_beside_ours(evaluator: Evaluator, tmp_path: Path) -> None:
    nfcorpus = DATASETS / "nfcorpus"
    if not nfcorpus.is_dir():
        pytest.skip("../shared/datasets/nfcorpus is not here")
    judged = dict(line.split("\t")[:2] for line in (nfcorpus / "qrels" / "test.tsv").read_text().splitlines()[1:])
    file = tmp_path / "bm25.trec"
    file.write_text("".join(f"{query} Q0 {document} 1 1 x\n" for query, document in judged.items()))
    assert evaluator("import", nfcorpus, file, "--metrics", "nDCG@10").exit_code == 0
    (run,) = (tmp_path / "runs").glob("2*")
    assert evaluator("analyse", run, "--out", tmp_path / "out").exit_code == 0
    header, row = rows_of(tmp_path / "out", "nDCG@10 beside")
    assert row[header.index("BM25 flat (Anserini)")] == "0.3218"
    assert row[header.index("BM25 (paper)")] == "0.325"
    systems = {cells[1]: cells for cells in rows_of(tmp_path / "out", "the ten systems side")[1:]}
    assert (systems["BM25"][-1], systems["ColBERT"][-1], len(systems)) == ("0.325", "0.305", 10)
    assert rows_of(tmp_path / "out", "Table 1")[1][:4] == ["nfcorpus", "test", "3633", "323"]


async def test_a_pipeline_that_was_ranked_carries_the_models_that_answered(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, pipelines=["bm25", "dense", "hybrid"]))
    with served(GatewayStub(model={"model": "small-en"}).app) as url:
        async with connected(url) as client:
            await evaluate(client, folder)
    (analysed,) = analyse([folder.name], folder.runs).sets
    assert [figures.label(name) for name, figures in analysed.pipelines.items()] == [
        "bm25",
        "dense (small-en)",
        "hybrid (small-en)",
    ]
    # What fuses already is fused with nothing.
    assert [fused.pipelines for fused in analysed.fusions] == [("bm25", "dense")]
