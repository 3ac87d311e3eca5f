"""trec_eval computes from exported files what the report says, whatever characters the ids have."""

import json
from pathlib import Path
from urllib.parse import unquote

import pytest
import pytrec_eval

from evaluator.analyses.analysing import analyse
from evaluator.commands.exchange import Exported, export_run
from evaluator.errors import EvaluationError
from evaluator.report.evaluation import quality_step
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.run_import import import_runs

IDS = ["plain", "50%20", "two words", "no-break\u00a0space", "line\u2028end"]


def written_run(tmp_path: Path, ids: list[str], qrels: str = "") -> RunFolder:
    """A run over documents with these ids; each query has the id of a document and finds the documents after it."""
    directory = tmp_path / "odd"
    (directory / "qrels").mkdir(parents=True)
    for name in ("corpus", "queries"):
        lines = (json.dumps({"_id": identity, "text": f"{name} {at}"}) for at, identity in enumerate(ids))
        (directory / f"{name}.jsonl").write_text("\n".join(lines))
    positives = "".join(f"{query}\t{ids[(at + 2) % len(ids)]}\t1\n" for at, query in enumerate(ids))
    (directory / "qrels" / "test.tsv").write_text(qrels or positives, encoding="utf-8", newline="")
    hits = [(query, ids[(at + step) % len(ids)], step) for at, query in enumerate(ids[:-1]) for step in (1, 2, 3)]
    (tmp_path / "arm.trec").write_text("".join(f"{q}\tQ0\t{d}\t0\t{-n}\tx\n" for q, d, n in hits), newline="")
    return import_runs(
        tmp_path / "runs", {"arm": tmp_path / "arm.trec"}, directory, split="test", name=None, depth=1000
    )


def trec_eval(exported: Exported) -> dict[str, float]:
    with exported.qrels.open(encoding="utf-8", newline="\n") as file:
        judgments = pytrec_eval.parse_qrel(file)
    with exported.runs[0].open(encoding="utf-8", newline="\n") as file:
        run = pytrec_eval.parse_run(file)
    measured = pytrec_eval.RelevanceEvaluator(judgments, {"ndcg_cut.10", "map", "recall.100", "P.10"}).evaluate(run)
    names = {"ndcg_cut_10": "nDCG@10", "map": "MAP", "recall_100": "Recall@100", "P_10": "P@10"}
    return {our: sum(figures[their] for figures in measured.values()) / len(judgments) for their, our in names.items()}


@pytest.mark.parametrize("ids", [["a", "b", "c%20", "d"], IDS], ids=["plain", "odd"])
def test_trec_eval_computes_the_reports_figures(tmp_path: Path, ids: list[str]) -> None:
    folder = written_run(tmp_path, ids)
    ours = quality_step(folder).arms["arm"]
    theirs = trec_eval(export_run(folder, tmp_path / "out"))
    assert 0 < theirs["nDCG@10"] < 1
    assert {name: ours[name] for name in theirs} == pytest.approx(theirs, abs=5e-5)


def test_ids_with_white_space_are_escaped_in_all_files_and_can_be_read_back(tmp_path: Path) -> None:
    exported = export_run(written_run(tmp_path, IDS), tmp_path / "out")
    assert exported.escaped
    for path in (exported.qrels, *exported.runs):
        lines = [line.split() for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
        assert len({len(line) for line in lines}) == 1
        assert {unquote(line[2]) for line in lines} == set(IDS)


def test_queries_of_which_trec_eval_sees_no_judgment_are_counted(tmp_path: Path) -> None:
    folder = written_run(tmp_path, ["a", "b", "c"], qrels="a\tb\t1\nb\tc\t-1\n")
    assert export_run(folder, tmp_path / "out").unjudged == 1


def test_a_relative_dataset_that_is_not_here_is_told_with_the_folder_where_its_path_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_run(tmp_path, ["a", "b", "c"])
    monkeypatch.chdir(tmp_path)
    folder = import_runs(Path("runs"), {"arm": Path("arm.trec")}, Path("odd"), split="test", name=None, depth=10)
    quality_step(folder)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(EvaluationError, match=f"^odd: .*{tmp_path}/elsewhere"):
        quality_step(folder)
    with pytest.raises(EvaluationError, match=f"{tmp_path}"):
        analyse([str(folder.path)], folder.runs, "arm")
