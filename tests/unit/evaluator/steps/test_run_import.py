"""Run files of another system become a run: nothing of them is lost, kept or reordered without being counted."""

import json
import os
from pathlib import Path

import pytest

from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError
from evaluator.report.evaluation import quality_step
from evaluator.report.report_step import report_step
from evaluator.report.run_report import Report
from evaluator.runs.answers import read_answers
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.trec_runs import read_run
from evaluator.steps.run_import import import_runs, named_files

# q1 with ranks that contradict the scores and a tie, q2 with a stranger, q4 finds itself, q5 is not judged.
SOLR = """q1 Q0 d2 1 1.5 solr
q1 Q0 d1 2 2.5 solr
q1 Q0 d3 3 1.5 solr
q2 Q0 elsewhere 1 9 solr
q2 Q0 d4 2 8 solr
q4 Q0 q4 1 7 solr
q4 Q0 d3 2 6 solr
q5 Q0 d1 1 1 solr
"""


def imported(tmp_path: Path, depth: int | None = 100, **texts: str) -> RunFolder:
    files = {}
    for name, text in texts.items():
        files[name] = tmp_path / f"{name}.trec"
        files[name].write_text(text)
    return import_runs(tmp_path / "runs", files, tmp_path / "shop", split="test", name=None, depth=depth)


def reported(folder: RunFolder) -> Report:
    quality_step(folder)
    return report_step(folder)


def test_the_files_own_scores_are_kept(shop: Path, tmp_path: Path) -> None:
    folder = imported(tmp_path, solr=SOLR)
    first = next(read_answers(folder.answers("solr")))
    assert first.ranking == (("d1", 2.5), ("d2", 1.5), ("d3", 1.5))


def test_everything_that_reading_decided_is_counted_in_the_report(shop: Path, tmp_path: Path) -> None:
    report = reported(imported(tmp_path, solr=SOLR))
    outcome = report.pipelines["solr"]
    assert outcome.imported is not None
    assert outcome.imported.model_dump() == {
        "file": str(tmp_path / "solr.trec"),
        "sha256": sha256(tmp_path / "solr.trec"),
        "queries": 4,
        "queries_unknown": 0,
        "queries_missing": 1,
        "queries_cut": 0,
        "excluded_self": 1,
        "hits": 6,
        "hits_not_in_corpus": 1,
        "hits_tied": 2,
    }
    assert (outcome.run_queries_not_judged, outcome.excluded_self) == (1, 1)


def test_the_page_shows_what_reading_each_file_decided_and_no_empty_table(shop: Path, tmp_path: Path) -> None:
    folder = imported(tmp_path, solr=SOLR)
    reported(folder)
    page = (folder.path / "report.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| solr     | {tmp_path / 'solr.trec'} |")]
    assert [cell.strip() for cell in row.split("|")[3:-1]] == ["6", "1", "0", "0", "1", "2", "1"]
    assert "Imported run files hold no latency." in page
    assert "## Stages" not in page


def test_a_query_that_the_file_does_not_hold_is_lost_and_counts_as_zero(shop: Path, tmp_path: Path) -> None:
    report = reported(imported(tmp_path, solr=SOLR))
    outcome = report.pipelines["solr"]
    # q1 perfect, q2 at rank 2, q3 missing, q4 perfect once it does not find itself.
    assert outcome.quality["MRR@10"] == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)
    assert (outcome.queries, outcome.errors_by_kind) == (4, {"not_in_file": 1})
    assert not report.valid
    assert report.warnings == (
        "solr: LOST 1 of 4 queries (not_in_file 1); they count as 0",
        "solr: 1 of 6 hits are NOT IN THE CORPUS: of another one?",
    )


def test_a_file_of_another_collection_with_the_same_ids_is_not_valid(shop: Path, tmp_path: Path) -> None:
    queries = ("q1", "q2", "q3", "q4", "q5", "q6", "q7")
    report = reported(imported(tmp_path, other="".join(f"{query} Q0 d1 1 1 x\n" for query in queries)))
    assert report.warnings == ("other: 2 of 7 queries are NOT IN THE COLLECTION: of another one?",)
    assert not report.valid


def test_a_whole_file_makes_a_valid_run_that_claims_no_latency(shop: Path, tmp_path: Path) -> None:
    whole = "".join(f"{query} Q0 {document} 1 1 x\n" for query in ("q1", "q2", "q3", "q4") for document in ("d1", "d3"))
    folder = imported(tmp_path, whole=whole)
    assert reported(folder).valid
    content = json.loads((folder.path / "report.json").read_text())
    assert content["schema_version"] == 2
    assert (content["generation"], content["engine"], content["ingest"]) == ("", {}, None)
    outcome = content["pipelines"]["whole"]
    assert outcome["latency_ms"]["n"] == 0
    assert [outcome["latency_ms"][name] for name in ("p50", "p95", "p99", "max")] == [None] * 4
    assert (outcome["stages_ms"], outcome["models"], outcome["degraded"]) == ({}, {}, 0)


def test_without_a_depth_all_files_are_cut_to_the_shallowest(shop: Path, tmp_path: Path) -> None:
    folder = imported(tmp_path, depth=None, solr=SOLR, short="q1 Q0 d2 1 1 x\nq1 Q0 d1 2 0 x\n")
    assert folder.experiment.depth == 2
    assert read_run(folder.run_file("solr"))["q1"] == ("d1", "d2")
    report = reported(folder)
    assert report.pipelines["solr"].quality["nDCG@10"] is None  # of the first two, nobody knows the first ten
    assert [one.imported and one.imported.queries_cut for one in report.pipelines.values()] == [1, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [("x1 Q0 d1 1 1 x\n", "solr.trec: .*split test"), ("q1 Q0 MED-1 1 1 x\n", "corpus .*: MED-1"), ("", "solr.trec: ")],
)
def test_files_of_another_collection_are_refused_and_leave_no_run(
    shop: Path, tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(EvaluationError, match=said):
        imported(tmp_path, solr=text)
    assert not (tmp_path / "runs").exists()


def test_a_pipeline_is_named_after_its_file_or_as_one_says(tmp_path: Path) -> None:
    assert named_files(["a/Run.BM25.txt", "other=a/run.trec.gz"]) == {
        "run-bm25": Path("a/Run.BM25.txt"),
        "other": Path("a/run.trec.gz"),
    }


def test_a_file_may_have_an_equals_sign_in_its_name(tmp_path: Path) -> None:
    (tmp_path / "k1=0.9.trec").touch()
    assert named_files([str(tmp_path / "k1=0.9.trec")]) == {"k1-0-9": tmp_path / "k1=0.9.trec"}


@pytest.mark.parametrize("words", [["a.txt", "b/a.run"], ["..."], ["Über=a.txt"]])
def test_names_that_are_equal_or_no_names_are_refused(words: list[str]) -> None:
    with pytest.raises(EvaluationError, match="name"):
        named_files(words)


def test_a_pipe_is_refused_in_a_sentence(shop: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(EvaluationError, match="pipe: "):
        import_runs(tmp_path / "runs", {"arm": tmp_path / "pipe"}, shop, split="test", name=None, depth=None)


def test_the_depth_is_that_of_the_judged_queries(shop: Path, tmp_path: Path) -> None:
    text = "q1 Q0 d1 1 1 x\nq5 Q0 d1 1 3 x\nq5 Q0 d2 2 2 x\n"  # q5 is not judged
    assert imported(tmp_path, depth=None, solr=text).experiment.depth == 1
