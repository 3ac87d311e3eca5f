"""The command line: a table, files where they were promised, and an exit status that tells how it went."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from services.chassis.errors import Unavailable
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.small_runs import Evaluator

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def evaluator(gateway: str, tmp_path: Path) -> Evaluator:
    environment = {"GATEWAY_URL": gateway, "EVALUATOR_RUNS": str(tmp_path / "runs"), "DATASET": str(tmp_path / "shop")}
    write_shop(tmp_path / "shop")
    return lambda *words, **more: CliRunner().invoke(app, words, env=environment | {"PIPELINES": "bm25,dense"} | more)


def test_the_command_line_starts_without_web_framework_and_numbers() -> None:
    slow = "{'fastapi', 'numpy', 'ranx', 'matplotlib'}"
    code = f"import sys, evaluator.__main__; print({slow} & sys.modules.keys() or 'none')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "none\n"


def test_the_demo_prints_a_table_and_the_page_to_open_first(evaluator: Evaluator, tmp_path: Path) -> None:
    done = evaluator("demo")
    assert done.exit_code == 0, done.output
    header, _, *rows = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in header[:8]] == [
        "pipeline", "nDCG@10", "MRR@10", "P@10", "Recall@10", "judged@10", "p50 ms", "p95 ms",
    ]  # fmt: skip
    assert [row[0].strip() for row in rows] == ["bm25", "dense"]
    (place,) = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("Report: ")]
    assert Path(place).name == "report.html"
    assert Path(place).is_file()


def test_a_run_that_lost_queries_says_so_last_and_exits_with_3(evaluator: Evaluator, stub: GatewayStub) -> None:
    stub.failing_queries = {"red bell": Unavailable("gone")}
    done = evaluator("demo")
    assert done.exit_code == 3
    assert "Quality: NOT VALID, because bm25: LOST 1 of 4 queries (unavailable 1); they count as 0" in done.stderr


def test_a_run_is_named_by_its_folder_or_by_its_name_among_the_runs(evaluator: Evaluator, tmp_path: Path) -> None:
    evaluator("demo")
    name = next((tmp_path / "runs").glob("2*")).name
    said = [evaluator("report", "--run", word).stdout for word in (name, f"{tmp_path}/runs/{name}")]
    assert said[0] == said[1] != ""
    assert "no run there" in evaluator("report", "--run", "none").output


def test_metrics_are_named_for_a_run_or_for_measuring_it_again(evaluator: Evaluator) -> None:
    header = evaluator("demo", "--metrics", "nDCG@3, bpref").stdout
    assert "| pipeline | nDCG@3 | bpref@100 |" in header
    assert evaluator("quality", METRICS="RBP.95").exit_code == 0
    assert "| pipeline | RBP.95@100 |" in evaluator("report").stdout
    refused = evaluator("quality", "--metrics", "ndcg@3")
    assert (refused.exit_code, "--metrics: no metric 'ndcg@3'; there are nDCG@k" in refused.stderr) == (2, True)


@pytest.mark.integration  # takes seconds
def test_the_next_command_works_as_it_is_printed_whatever_the_shell_knows(evaluator: Evaluator, tmp_path: Path) -> None:
    said = evaluator("ingest").output
    for step in ("rank", "quality", "report"):
        (line,) = [line for line in said.splitlines() if line.startswith("Next: ")]
        assert f"evaluator {step} " in line
        # No GATEWAY_URL, no EVALUATOR_RUNS, no PATH: a shell that has never heard of this environment.
        done = subprocess.run(
            line.removeprefix("Next: "), shell=True, cwd=ROOT, env={"PIPELINES": "bm25,dense"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        said = done.stdout
        assert done.returncode == 0, said
    assert (tmp_path / "runs" / "latest" / "report.json").is_file()


def test_a_report_before_any_query_names_the_step_that_sends_them(evaluator: Evaluator) -> None:
    assert evaluator("ingest").exit_code == 0
    done = evaluator("report")
    assert (done.exit_code, "no run has sent its queries yet" in done.stderr) == (1, True)
    assert "-m evaluator rank` does" in done.stderr


def test_metadata_that_cannot_be_filtered_by_is_told_once(evaluator: Evaluator, tmp_path: Path) -> None:
    experiment = tmp_path / "mine.yaml"
    experiment.write_text(f"{{name: mine, dataset: {tmp_path / 'shop'}, pipelines: [bm25], metadata: {{}}}}")
    said = evaluator("ingest", str(experiment), PIPELINES="").output
    assert said.count("because shop does not declare it: metadata year. Name it under `metadata`") == 1
    assert "does not declare it" not in evaluator("ingest").output  # there it is inferred


def test_fields_of_the_corpus_that_are_not_read_are_told_before_it_is_loaded(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    with (tmp_path / "shop" / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "n1", "title": "bell", "body": "rings"}\n')
    said = evaluator("ingest").output
    assert said.count("Not read, because a BEIR corpus has _id, title, text, metadata alone: body\nLoading") == 1


def test_pipelines_selects_those_that_the_experiment_defines_itself_too(evaluator: Evaluator, tmp_path: Path) -> None:
    experiment = tmp_path / "mine.yaml"
    stages = "[{kind: retrieve, backend: lexical}]"
    experiment.write_text(
        f"{{name: mine, dataset: {tmp_path / 'shop'}, pipelines: [bm25, {{name: own, stages: {stages}}}, hybrid]}}"
    )
    done = evaluator("run", str(experiment), PIPELINES="hybrid,own")
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "runs" / "latest" / "report.json").read_text())
    assert list(report["pipelines"]) == ["hybrid", "own"]


def test_positives_that_the_corpus_lacks_are_said_last_and_exit_with_3(evaluator: Evaluator, tmp_path: Path) -> None:
    with (tmp_path / "shop" / "qrels" / "test.tsv").open("a") as qrels:
        qrels.write("q2\tlost\t1\n")
    done = evaluator("demo")
    assert done.exit_code == 3
    assert "Quality: NOT VALID, because dataset: 1 of 5 positive judgments name documents that the" in done.stderr


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("qrels/test.tsv", None, "test.tsv: Is a directory"),
        ("corpus.jsonl", '{"_id": "d1", "contents": "red bell"}\n', "besides, there are: contents"),
    ],
)
def test_a_dataset_that_cannot_be_measured_is_refused_in_one_sentence(
    evaluator: Evaluator, tmp_path: Path, file: str, content: str | None, said: str
) -> None:
    path = tmp_path / "shop" / file
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_text(content)
    done = evaluator("demo")
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_settings_of_the_environment_may_be_empty(evaluator: Evaluator) -> None:
    assert evaluator("demo", PRESET="", QUERIES="", DEPTH="").exit_code == 0


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (("demo",), {"DATASET": "nowhere"}, "nowhere: neither a directory nor a name of the catalogue (`"),
        (("demo",), {"PIPELINES": "bm25,nope"}, "nope: there are bm25, dense, hybrid"),
        (("demo",), {"PRESET": "nope"}, "not among the declared ones"),
        (("run", "nope"), {}, "no such experiment; there are: demo, nfcorpus, rerank-depths, scifact, scifact-load"),
        (("demo", "--wait", "0"), {"GATEWAY_URL": "http://127.0.0.1:9"}, "was not ready within 0 s"),
        (("rank", "--run", "nowhere"), {}, "nowhere: no run there"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line_and_exits_with_1(
    evaluator: Evaluator, words: tuple[str, ...], environment: dict[str, str], said: str
) -> None:
    done = evaluator(*words, **environment)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_run_files_of_another_system_get_a_table_and_a_report(evaluator: Evaluator, tmp_path: Path) -> None:
    (tmp_path / "solr.trec").write_text("q1 Q0 d1 1 2 x\nq2 Q0 d4 1 2 x\nq3 Q0 d1 1 2 x\nq4 Q0 d3 1 2 x\n")
    done = evaluator("import", str(tmp_path / "shop"), str(tmp_path / "solr.trec"), "--depth", "100")
    assert done.exit_code == 0, done.output
    assert "shop: 6 documents; imported run files" in done.stdout
    (row,) = [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("| solr ")]
    assert [row[2].strip(), row[6].strip()] == ["0.7500", "–"]  # q3 has no positive; no latency
    (folder,) = (tmp_path / "runs").glob("*-shop-*")
    assert (folder / "report.json").is_file()
    refused = evaluator("rank", "--run", str(folder))
    assert (refused.exit_code, "was imported: no gateway answers its pipelines" in refused.stderr) == (1, True)


def test_a_run_is_exported_with_the_commands_that_evaluate_it(evaluator: Evaluator, tmp_path: Path) -> None:
    assert evaluator("demo").exit_code == 0
    done = evaluator("export")
    assert done.exit_code == 0, done.output
    written = (tmp_path / "runs" / "latest").resolve() / "export"
    assert [line.split()[-2:] for line in done.stdout.splitlines()] == [
        [str(written / "judgments.qrels"), str(written / f"{arm}.run")] for arm in ("bm25", "dense")
    ]
    assert "q1 Q0 d1 1 " in (written / "bm25.run").read_text()


def test_a_repeated_run_has_a_folder_each_and_one_summary(evaluator: Evaluator, tmp_path: Path) -> None:
    done = evaluator("run", "demo", "--repeat", "3")
    assert done.exit_code == 0, done.output
    assert "Every query has the same quality in all runs." in done.stdout
    summary = json.loads((tmp_path / "runs" / "latest" / "repeats.json").read_text())
    assert (len(summary["runs"]), summary["identical"], summary["valid"]) == (3, True, True)
    reports = [json.loads((tmp_path / "runs" / name / "report.json").read_text()) for name in summary["runs"]]
    quality = summary["pipelines"]["bm25"]["quality"]["nDCG@10"]
    assert quality["mean"] == pytest.approx(reports[0]["pipelines"]["bm25"]["quality"]["nDCG@10"])
    assert (quality["std"], quality["runs"]) == (0.0, 3)
    p50 = [report["pipelines"]["bm25"]["latency_ms"]["p50"] for report in reports]
    assert summary["pipelines"]["bm25"]["latency_ms"]["p50"]["std"] == pytest.approx(statistics.stdev(p50))
    page = (tmp_path / "runs" / "latest" / "repeats.md").read_text()
    assert all(f"(../{name}/report.md)" in page for name in summary["runs"])


def test_a_folder_that_cannot_be_written_is_said_in_one_line(evaluator: Evaluator, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = evaluator("demo", "--runs", str(tmp_path / "file" / "runs"))
    assert (done.exit_code, done.stderr) == (1, f"evaluator: {tmp_path / 'file' / 'runs'}: Not a directory\n")


def test_a_history_lists_the_runs_of_an_experiment(evaluator: Evaluator) -> None:
    assert [evaluator("run", "demo").exit_code for _ in range(2)] == [0, 0]
    listed = evaluator("history", "demo")
    assert listed.exit_code == 0, listed.output
    # The second run of bm25 and of dense, against the one before, the best and the first.
    assert listed.stdout.count("| cannot tell +0.0000") == 6
