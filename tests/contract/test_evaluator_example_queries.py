"""Kinds of queries and the worst losses in a report, its pages and the terminal; a report without its dataset."""

import math
from pathlib import Path

import pytest

from evaluator.metrics.paired_differences import bca_interval
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from tests.support.simulated_runs import ranked_by, write_collection, write_rankings, write_three_rankings
from tests.support.small_runs import Evaluator


def imported(evaluator: Evaluator, tmp_path: Path, *files: Path) -> RunFolder:
    done = evaluator("import", write_collection(tmp_path / "shop"), *files)
    assert done.exit_code == 0, done.output
    (run,) = (tmp_path / "runs").glob("2*")
    return RunFolder(run)


def ndcg(rank: int) -> float:
    """nDCG@10 of a single relevant document."""
    return 1 / math.log2(rank + 1) if rank <= 10 else 0.0


def good_and_fair(folder: Path) -> tuple[Path, Path]:
    """The first is better on all but four queries: those lose more, the higher their number is."""
    lost = {7: 4, 8: 5, 9: 8, 10: 19}
    fair = write_rankings(folder / "fair.trec", ranked_by(lambda n: 3))
    return write_rankings(folder / "good.trec", ranked_by(lambda n: lost.get(n, 1))), fair


def report_of(folder: RunFolder) -> Report:
    return folder.read("report.json", Report)


@pytest.mark.parametrize("turned", [False, True])
def test_the_three_worst_losses_against_the_runner_up_are_shown_with_texts(
    evaluator: Evaluator, tmp_path: Path, turned: bool
) -> None:
    files = good_and_fair(tmp_path)
    folder = imported(evaluator, tmp_path, *(files[::-1] if turned else files))
    found = report_of(folder).examples
    assert found is not None
    assert (found.first, found.second, found.metric) == ("fair", "good", "nDCG@10")
    assert [(one.query, one.text) for one in found.examples] == [(f"q{n}", f"question {n}") for n in (10, 9, 8)]
    assert [one.second for one in found.examples] == pytest.approx([0.0, ndcg(8), ndcg(5)])
    assert found.examples[0].documents[0].title == "Answer 10"
    words = "good has a lower nDCG@10 than fair on 4 of 60 queries; the largest losses follow."
    printed = evaluator("report", "--run", folder.path).stdout
    assert f"{words}\n  0.0000 instead of 0.5000: question 10\n  0.3155 instead of 0.5000: question 9\n" in printed
    page = (folder.path / "report.md").read_text()
    places = [page.index(part) for part in ("| pipeline", words, "question 10 (0.5000 → 0.0000)", "question 8")]
    assert places == sorted(places)


def test_where_nothing_is_lost_one_sentence_says_so(evaluator: Evaluator, tmp_path: Path) -> None:
    files = write_three_rankings(tmp_path)
    folder = imported(evaluator, tmp_path, files["fair"], files["good"], files["bad"])
    words = "good has a lower nDCG@10 than fair on none of 60 queries."
    assert f"{words}\n\nReport: " in evaluator("report", "--run", folder.path).stdout
    assert words in (folder.path / "report.md").read_text()


def test_kinds_of_queries_have_means_and_the_interval_of_the_difference_from_the_runner_up(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    good, fair = good_and_fair(tmp_path)
    folder = imported(evaluator, tmp_path, fair, good)
    report = report_of(folder)
    # Every query has a `number` of its own, which is no kind.
    assert [(kind.field, kind.value, kind.queries) for kind in report.kinds] == [
        ("kind", "long", 30),
        ("kind", "short", 30),
    ]
    long = report.kinds[0]
    lost = {8: 5, 10: 19}
    values = [ndcg(lost.get(n, 1)) for n in range(0, 60, 2)]
    assert long.means == pytest.approx({"fair": ndcg(3), "good": sum(values) / 30})
    assert long.difference == pytest.approx(sum(values) / 30 - ndcg(3))
    assert long.interval == pytest.approx(
        bca_interval([value - ndcg(3) for value in values], seed=report.seed), abs=1e-9
    )
    printed = evaluator("report", "--run", folder.path).stdout
    for text in (printed, (folder.path / "report.md").read_text()):
        row = next(line for line in text.splitlines() if line.startswith("| long "))
        low, high = long.interval or (0.0, 0.0)
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert cells == [
            "long", "30", "0.5000", f"{long.means['good']:.4f}", f"{long.difference:+.4f}", f"{low:+.4f} to {high:+.4f}"
        ]  # fmt: skip
        assert "| good minus fair |" in text
    assert report_of(folder).pairs[0].family == 1  # kinds join no family of verdicts


def test_one_pipeline_has_kinds_without_a_difference_and_no_losses(evaluator: Evaluator, tmp_path: Path) -> None:
    folder = imported(evaluator, tmp_path, good_and_fair(tmp_path)[1])
    report = report_of(folder)
    assert report.examples is None
    assert [(kind.means, kind.difference, kind.interval) for kind in report.kinds] == [({"fair": 0.5}, None, None)] * 2
    page = (folder.path / "report.md").read_text()
    assert page.splitlines()[2] == "**No recommendation: it needs two pipelines with a metric in common.**"
    assert "minus" not in page
    assert "worst losses" not in page


def test_a_report_whose_dataset_is_gone_is_written_and_names_the_reason(evaluator: Evaluator, tmp_path: Path) -> None:
    files = write_three_rankings(tmp_path)
    folder = imported(evaluator, tmp_path, files["fair"], files["good"])
    (tmp_path / "shop").rename(tmp_path / "elsewhere")
    done = evaluator("report", "--run", folder.path)
    assert done.exit_code == 0, done.output
    report = report_of(folder)
    assert (report.examples, report.kinds, report.recommendation is not None) == (None, (), True)
    assert report.examples_reason is not None
    assert f"None, because {report.examples_reason}" in (folder.path / "report.md").read_text()
