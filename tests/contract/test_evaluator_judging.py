"""`judge` takes a pool from runs to qrels that a report reads, with the grades of several judges."""

import json
import shlex
from pathlib import Path

import pytest

from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError, command_line
from evaluator.judging.pool import PooledPair
from evaluator.judging.session import JudgingSession
from tests.support.later_release import add_later_fields
from tests.support.simulated_runs import write_collection, write_three_rankings
from tests.support.small_runs import Evaluator

QUERIES = 6


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_collection(tmp_path / "shop", QUERIES, grade=3)


@pytest.fixture
def run(tmp_path: Path, evaluator: Evaluator, shop: Path) -> Path:
    """A run of three pipelines; each query has its relevant document at another rank among the same fillers."""
    files = write_three_rankings(tmp_path)
    done = evaluator("import", shop, files["bad"], files["fair"], files["good"], "--depth", 10)
    assert done.exit_code == 3, done.output  # the files hold queries that the small collection lacks
    return next((tmp_path / "runs").glob("2*"))


@pytest.fixture
def folder(evaluator: Evaluator, run: Path) -> Path:
    return pooled(evaluator, f"{run}:bad", f"{run}:good")


def pooled(evaluator: Evaluator, *words: object, top: int = 3) -> Path:
    """Makes a pool and returns its folder, which the command prints."""
    done = evaluator("judge", "pool", *words, "--top", top)
    assert done.exit_code == 0, done.output
    return Path(done.stdout.partition("Session: ")[2].strip())


def graded(folder: Path, judge: str, keys: str) -> JudgingSession:
    """Grades one pair after another."""
    session = JudgingSession(folder)
    for key in keys:
        shown = session.next_pair(judge)
        assert shown is not None
        session.grade(judge, shown.pair, int(key))
    return session


def test_a_session_of_a_later_release_is_judged_on(folder: Path) -> None:
    graded(folder, "ann", "1")
    pools = {name: (folder / name).read_bytes() for name in ("known.json", "rankings.json")}
    add_later_fields(folder)
    for name, content in pools.items():  # tables by query and by pipeline, without fields
        (folder / name).write_bytes(content)
    assert len(graded(folder, "ann", "1").standing("ann").grades) == 2


def test_a_pool_says_what_it_was_made_from_and_shows_no_system(folder: Path, run: Path) -> None:
    made = json.loads((folder / "session.json").read_text())
    assert [(source["label"], source["pipeline"]) for source in made["sources"]] == [("bad", "bad"), ("good", "good")]
    assert (
        made["sources"][0]["run_file_sha256"]
        == json.loads((run / "imported.json").read_text())["arms"]["bad"]["sha256"]
    )
    assert made["queries"] == [f"q{number}" for number in range(QUERIES)]
    pool = [json.loads(line) for line in (folder / "pool.jsonl").read_text().splitlines()]
    assert {tuple(line) for line in pool} == {("query", "document")}
    # Each query has the fillers f0 to f2; its relevant document is judged already.
    assert sorted(line["document"] for line in pool) == sorted(["f0", "f1", "f2"] * QUERIES)


def test_a_session_is_named_after_time_and_dataset_and_the_page_to_judge_on_is_named(
    evaluator: Evaluator, run: Path
) -> None:
    done = evaluator("judge", "pool", run)
    (made,) = (run.parent / "judging").iterdir()
    assert made.name.endswith("Z-shop")
    assert f"/judge/{made.name}" in done.stderr
    assert len(json.loads((made / "session.json").read_text())["sources"]) == 3


def test_grades_of_an_earlier_session_set_no_scale_where_the_collection_has_none(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    bare = write_collection(tmp_path / "bare", QUERIES)
    (bare / "qrels" / "test.tsv").write_text("".join(f"q{number}\t\t\n" for number in range(QUERIES)))
    evaluator("import", bare, *write_three_rankings(tmp_path).values(), "--depth", 10)
    run = next((tmp_path / "runs").glob("2*"))
    first = pooled(evaluator, run)
    graded(first, "ann", "1")
    exported = evaluator("judge", "export", first, tmp_path / "one.qrels")
    # The command that it prints measures the run of the pool by these judgments.
    words = shlex.split(exported.stderr.rpartition("Next: ")[2])
    assert words[:3] == shlex.split(command_line())
    assert evaluator(*words[3:]).exit_code == 0
    assert "one.qrels" in (run / "quality.json").read_text()
    second = pooled(evaluator, run, "--judgments", tmp_path / "one.qrels")
    assert [len(JudgingSession(folder).file.scale) for folder in (first, second)] == [4, 4]


def test_a_session_names_the_run_that_latest_was(evaluator: Evaluator, run: Path) -> None:
    (run.parent / "latest").unlink(missing_ok=True)
    (run.parent / "latest").symlink_to(run.name)
    made = pooled(evaluator, f"{run.parent / 'latest'}:bad")
    assert JudgingSession(made).file.sources[0].run == run.name


def test_progress_and_ties_of_judges_are_shown(evaluator: Evaluator, folder: Path) -> None:
    graded(folder, "ann lee", "0123" * 3)
    graded(folder, "bob", "0023" * 3)
    shown = evaluator("judge", "show", folder).stdout
    assert "| ann lee |     12 |       0 |    6 |" in shown
    assert "12 of 18 pairs are judged, 3 of them tied" in shown
    assert "ann lee 1, bob 0" in shown


def test_the_order_by_impact_leaves_out_what_another_judge_has_graded(folder: Path) -> None:
    session = JudgingSession(folder)
    for pair in session.pairs[:4]:
        session.grade("ann", pair, 0)
    own = session.next_pair("bob", "pool")
    assert own is not None
    assert own.pair == session.pairs[0]
    following = session.next_pair("bob", "impact")
    assert following is not None
    assert following.pair in session.pairs[4:]
    session.skip("bob", following.pair)
    after = session.next_pair("bob", "impact")
    assert after is not None
    assert after.pair != following.pair


def test_the_export_is_read_by_quality_and_not_pooled_again(
    evaluator: Evaluator, folder: Path, run: Path, tmp_path: Path
) -> None:
    assert graded(folder, "ann", "1" * 18).next_pair("ann") is None
    graded(folder, "bob", "30")
    path = tmp_path / "more.qrels"
    assert evaluator("judge", "export", folder, path).exit_code == 0
    session = JudgingSession(folder)
    lines = path.read_text().splitlines()
    assert f"{session.pairs[0].query}\t0\t{session.pairs[0].document}\t1" in lines
    assert f"{session.pairs[1].query}\t0\t{session.pairs[1].document}\t0" in lines
    made = json.loads((tmp_path / "more.qrels.json").read_text())
    assert made["qrels_sha256"] == sha256(path)
    assert (made["judges"], made["judged"], made["by_several"], made["tied"]) == ({"ann": 18, "bob": 2}, 18, 2, 2)
    assert evaluator("quality", "--run", run, "--judgments", path).exit_code == 0
    assert json.loads((run / "quality.json").read_text())["added_judgments"]["files"][0]["added"] == 18
    again = evaluator("judge", "pool", f"{run}:bad", f"{run}:good", "--top", 3, "--judgments", path)
    assert again.exit_code == 1
    assert "every document among the first 3 is judged" in again.stderr


def test_an_export_for_beir_has_its_header_and_replaces_an_earlier_export_alone(
    evaluator: Evaluator, folder: Path, tmp_path: Path, shop: Path
) -> None:
    graded(folder, "ann", "2")
    path = tmp_path / "more.tsv"
    assert [evaluator("judge", "export", folder, path).exit_code for _ in range(2)] == [0, 0]
    pair = JudgingSession(folder).pairs[0]
    assert path.read_text() == f"query-id\tcorpus-id\tscore\n{pair.query}\t{pair.document}\t2\n"
    before = (shop / "qrels" / "test.tsv").read_bytes()
    refused = evaluator("judge", "export", folder, shop / "qrels" / "test.tsv")
    assert refused.exit_code == 1
    assert "not an export of judgments; name another one" in refused.stderr
    assert (shop / "qrels" / "test.tsv").read_bytes() == before
    assert "name it .qrels" in evaluator("judge", "export", folder, tmp_path / "more.json").stderr


def test_an_export_without_a_judgment_is_refused(evaluator: Evaluator, folder: Path, tmp_path: Path) -> None:
    done = evaluator("judge", "export", folder, tmp_path / "more.qrels")
    assert (done.exit_code, "nobody has graded a pair" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("pool", "{run}", "--top", "11"), "was ranked 10 deep; --top is at most that"),
        (("pool", "{run}:none"), "the run has no pipeline 'none'"),
        (("show", "{run}"), "no judging session there"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    evaluator: Evaluator, run: Path, words: tuple[str, ...], why: str
) -> None:
    done = evaluator("judge", *(word.format(run=run) for word in words))
    assert done.exit_code in (1, 2)
    assert why in done.stderr


def test_one_pipeline_alone_is_judged_in_the_order_of_its_pool(evaluator: Evaluator, run: Path) -> None:
    session = graded(pooled(evaluator, f"{run}:good"), "ann", "1")
    with pytest.raises(EvaluationError, match="one pipeline alone has no comparison"):
        session.next_pair("ann", "impact")


def test_documents_that_the_corpus_lacks_are_left_out_and_counted(
    evaluator: Evaluator, shop: Path, tmp_path: Path
) -> None:
    path = tmp_path / "foreign.trec"
    path.write_text(
        "".join(f"q{n} Q0 {name} 1 {-at} t\n" for n in range(QUERIES) for at, name in enumerate(("f0", "x")))
    )
    session = JudgingSession(pooled(evaluator, path, "--dataset", shop, top=2))
    assert session.file.not_in_corpus == QUERIES
    assert {pair.document for pair in session.pairs} == {"f0"}


def test_a_pair_of_another_pool_is_refused(folder: Path) -> None:
    session = JudgingSession(folder)
    with pytest.raises(EvaluationError, match="not in the pool"):
        session.grade("ann", PooledPair("q0", "f9"), 1)
