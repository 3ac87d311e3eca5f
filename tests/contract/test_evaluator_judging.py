"""`judge` takes a pool from runs to qrels that a report reads, on the command line and by several judges at once."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError, WrongOption
from evaluator.judging.pool import PooledPair
from evaluator.judging.session import JudgingSession
from tests.support.later_release import add_later_fields
from tests.support.simulated_runs import write_collection, write_three_rankings

ROOT = Path(__file__).resolve().parents[2]
QUERIES = 6
Evaluator = Callable[..., Result]


@pytest.fixture
def evaluator(tmp_path: Path) -> Evaluator:
    def done(*words: object, typed: str = "") -> Result:
        environment = {"EVALUATOR_RUNS": str(tmp_path / "runs")}
        return CliRunner().invoke(app, [*map(str, words)], env=environment, input=typed)

    return done


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
def folder(tmp_path: Path, evaluator: Evaluator, run: Path) -> Path:
    done = evaluator("judge", "pool", f"{run}:bad", f"{run}:good", "--top", 3, "--session", tmp_path / "session")
    assert done.exit_code == 0, done.output
    return tmp_path / "session"


def typed(keys: str) -> str:
    return "".join(f"{key}\n" for key in keys)


def test_a_session_of_a_later_release_is_judged_on(folder: Path, evaluator: Evaluator) -> None:
    assert evaluator("judge", "grade", folder, "--judge", "ann", typed=typed("1q")).exit_code == 0
    pools = {name: (folder / name).read_bytes() for name in ("known.json", "rankings.json") if (folder / name).exists()}
    add_later_fields(folder)
    for name, content in pools.items():  # tables by query and by pipeline, without fields
        (folder / name).write_bytes(content)
    done = evaluator("judge", "grade", folder, "--judge", "ann", typed=typed("1q"))
    assert done.exit_code == 0, done.output
    assert len(JudgingSession(folder).standing("ann").grades) == 2


def test_a_pool_says_what_it_was_made_from_and_shows_no_system(folder: Path, run: Path) -> None:
    made = json.loads((folder / "session.json").read_text())
    assert [(one["label"], one["pipeline"]) for one in made["sources"]] == [("bad", "bad"), ("good", "good")]
    assert (
        made["sources"][0]["run_file_sha256"]
        == json.loads((run / "imported.json").read_text())["arms"]["bad"]["sha256"]
    )
    assert made["queries"] == [f"q{number}" for number in range(QUERIES)]
    pool = [json.loads(line) for line in (folder / "pool.jsonl").read_text().splitlines()]
    assert {tuple(line) for line in pool} == {("query", "document")}
    # Each query has the fillers f0 to f2; its relevant document is judged already.
    assert sorted(line["document"] for line in pool) == sorted(["f0", "f1", "f2"] * QUERIES)


def test_the_default_folder_is_named_after_time_and_dataset(evaluator: Evaluator, run: Path) -> None:
    assert evaluator("judge", "pool", run).exit_code == 0
    (made,) = (run.parent / "judging").iterdir()
    assert made.name.endswith("Z-shop")
    assert len(json.loads((made / "session.json").read_text())["sources"]) == 3


def test_keys_grade_skip_and_undo_and_a_session_goes_on(evaluator: Evaluator, folder: Path) -> None:
    done = evaluator("judge", "grade", folder, "--judge", "ann", typed=typed("21xsuu0q"))
    assert done.exit_code == 0, done.output
    assert "'x' is no key" in done.stderr
    assert "Judgments written: 2." in done.stderr  # of four, two were taken back
    session = JudgingSession(folder)
    first, second = session.pairs[:2]
    assert session.standing("ann").grades == {first: 2, second: 0}
    evaluator("judge", "grade", folder, "--judge", "ann", typed=typed("3"))
    assert session.standing("ann").grades == {first: 2, second: 0, session.pairs[2]: 3}
    shown = session.shown(first)
    assert f"Query:    {shown.query}" in done.stdout
    assert "good" not in done.stdout


@pytest.mark.parametrize(("highest", "refused"), [(2, "3"), (1, "2")])
def test_grades_end_where_those_of_the_collection_end(
    evaluator: Evaluator, folder: Path, highest: int, refused: str
) -> None:
    made = json.loads((folder / "session.json").read_text())
    (folder / "session.json").write_text(json.dumps({**made, "known_grades": [0, highest]}))
    done = evaluator("judge", "grade", folder, "--judge", "ann", typed=typed(f"{refused}{highest}q"))
    session = JudgingSession(folder)
    assert f"'{refused}' is no key" in done.stderr
    assert "answers in full" not in done.stdout
    assert session.standing("ann").grades == {session.pairs[0]: highest}
    with pytest.raises(WrongOption, match=f"they end at {highest}"):
        session.grade("ann", session.pairs[1], int(refused))


def test_grades_of_an_earlier_session_set_no_scale_where_the_collection_has_none(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    bare = write_collection(tmp_path / "bare", QUERIES)
    (bare / "qrels" / "test.tsv").unlink()
    (bare / "qrels" / "test.json").write_text(json.dumps({f"q{number}": {} for number in range(QUERIES)}))
    evaluator("import", bare, *write_three_rankings(tmp_path).values(), "--depth", 10)
    run, folders = next((tmp_path / "runs").glob("2*")), (tmp_path / "first", tmp_path / "second")
    evaluator("judge", "pool", run, "--top", 3, "--session", folders[0])
    evaluator("judge", "grade", folders[0], "--judge", "ann", typed=typed("1q"))
    evaluator("judge", "export", folders[0], tmp_path / "one.qrels")
    evaluator("judge", "pool", run, "--top", 3, "--session", folders[1], "--judgments", tmp_path / "one.qrels")
    assert [len(JudgingSession(folder).file.scale) for folder in folders] == [4, 4]


def test_a_judges_name_may_have_spaces(evaluator: Evaluator, folder: Path) -> None:
    done = evaluator("judge", "grade", folder, "--judge", "ann lee", typed=typed("2q"))
    evaluator("judge", "grade", folder, "--judge", "bob", typed=typed("1q"))
    assert done.exit_code == 0, done.output
    assert JudgingSession(folder).judges == ("ann lee", "bob")
    assert "ann lee 2, bob 1" in evaluator("judge", "show", folder).stdout


def test_a_session_names_the_run_that_latest_was(evaluator: Evaluator, run: Path, tmp_path: Path) -> None:
    (run.parent / "latest").unlink(missing_ok=True)
    (run.parent / "latest").symlink_to(run.name)
    assert evaluator("judge", "pool", f"{run.parent / 'latest'}:bad", "--session", tmp_path / "made").exit_code == 0
    assert JudgingSession(tmp_path / "made").file.sources[0].run == run.name


def test_every_pair_is_asked_for_until_none_is_left(evaluator: Evaluator, folder: Path) -> None:
    done = evaluator("judge", "grade", folder, "--judge", "ann", typed=typed("1" * 40))
    assert "No pair is left for this judge." in done.stderr
    assert len(JudgingSession(folder).standing("ann").grades) == 3 * QUERIES


def test_judges_work_at_once_and_show_lists_ties(evaluator: Evaluator, folder: Path) -> None:
    command = [sys.executable, "-m", "evaluator", "judge", "grade", str(folder), "--judge"]
    keys = {"ann": "0123" * 3, "bob": "0023" * 3}
    at_work = {
        judge: subprocess.Popen([*command, judge], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for judge in keys
    }
    for judge, process in at_work.items():
        process.communicate(typed(keys[judge]), timeout=60)
        assert process.returncode == 0
    shown = evaluator("judge", "show", folder).stdout
    assert "| ann   |     12 |       0 |    6 |" in shown
    assert "12 of 18 pairs are judged" in shown
    assert "3 of them tied" in shown
    assert re.search(r"ann 1, bob 0", shown)


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
    evaluator("judge", "grade", folder, "--judge", "ann", typed=typed("1" * 18))
    evaluator("judge", "grade", folder, "--judge", "bob", typed=typed("30"))
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
    evaluator("judge", "grade", folder, "--judge", "ann", typed="2\n")
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
        (("judge", "pool", "{run}", "--top", "11"), "was ranked 10 deep; --top is at most that"),
        (("judge", "pool", "{run}:none"), "the run has no pipeline 'none'"),
        (("judge", "pool", "{run}", "--session", "{folder}"), "a new pool needs a new folder"),
        (("judge", "show", "{run}"), "no judging session there"),
        (("judge", "grade", "{folder}", "--judge", "../ann"), "is no name of a judge"),
        (("judge", "grade", "{folder}", "--judge", "ann "), "is no name of a judge"),
        (("judge", "grade", "{folder}", "--judge", "a" * 65), "is no name of a judge"),
        (("judge", "grade", "{folder}", "--judge", "ann", "--order", "best"), "there are pool, impact"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    evaluator: Evaluator, run: Path, folder: Path, words: tuple[str, ...], why: str
) -> None:
    done = evaluator(*(word.format(run=run, folder=folder) for word in words))
    assert done.exit_code in (1, 2)
    assert why in done.stderr


def test_one_pipeline_alone_is_judged_in_the_order_of_its_pool(evaluator: Evaluator, run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    assert evaluator("judge", "pool", f"{run}:good", "--session", alone).exit_code == 0
    assert evaluator("judge", "grade", alone, "--judge", "ann", typed="1\n").exit_code == 0
    assert evaluator("judge", "show", alone).exit_code == 0
    done = evaluator("judge", "grade", alone, "--judge", "ann", "--order", "impact")
    assert "one pipeline alone has no comparison" in done.stderr


def test_documents_that_the_corpus_lacks_are_left_out_and_counted(
    evaluator: Evaluator, shop: Path, tmp_path: Path
) -> None:
    path = tmp_path / "foreign.trec"
    path.write_text(
        "".join(f"q{n} Q0 {name} 1 {-at} t\n" for n in range(QUERIES) for at, name in enumerate(("f0", "x")))
    )
    done = evaluator("judge", "pool", path, "--dataset", shop, "--top", 2, "--session", tmp_path / "made")
    assert done.exit_code == 0, done.output
    assert f"{QUERIES} pairs are left out: the corpus lacks their documents." in done.stderr
    assert {pair.document for pair in JudgingSession(tmp_path / "made").pairs} == {"f0"}


def test_a_pair_of_another_pool_is_refused(folder: Path) -> None:
    session = JudgingSession(folder)
    with pytest.raises(EvaluationError, match="not in the pool"):
        session.grade("ann", PooledPair("q0", "f9"), 1)
