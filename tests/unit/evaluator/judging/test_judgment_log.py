"""What a judge did is on the disk before the next pair is shown, and stays there whatever ends the process."""

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.judging.judgment_log import JudgmentLog
from evaluator.judging.pool import PooledPair

ROOT = Path(__file__).resolve().parents[4]
A, B, C = (PooledPair("q1", name) for name in "abc")
ENDLESS = """
import sys
from pathlib import Path
from evaluator.judging.judgment_log import JudgmentLog
from evaluator.judging.pool import PooledPair
log = JudgmentLog(Path(sys.argv[1]), "ann")
for number in range(1_000_000):
    log.append(PooledPair("q", f"d{number}"), number % 4)
    print(number, flush=True)
"""


@pytest.fixture
def log(tmp_path: Path) -> JudgmentLog:
    return JudgmentLog(tmp_path, "ann")


def test_grades_and_skips_stand_and_a_later_one_replaces_an_earlier_one(log: JudgmentLog) -> None:
    for pair, grade in ((A, 2), (B, None), (C, 0), (A, 3), (B, 1)):
        log.append(pair, grade)
    assert log.standing().grades == {A: 3, B: 1, C: 0}
    assert log.standing().skipped == set()


def test_undo_takes_back_one_action_after_another_and_rewrites_nothing(log: JudgmentLog) -> None:
    log.append(A, 2)
    log.append(A, 3)
    log.append(B, None)
    before = log.path.read_bytes()
    assert [log.undo(), log.undo()] == [B, A]
    assert log.standing().grades == {A: 2}
    assert log.path.read_bytes().startswith(before)
    assert [log.undo(), log.undo()] == [A, None]
    assert log.standing().grades == {}
    assert [json.loads(line)["action"] for line in log.path.read_text().splitlines()[3:]] == ["undo"] * 3


def test_a_form_that_is_sent_twice_is_one_action_to_take_back(log: JudgmentLog) -> None:
    for grade in (1, 3, 3):
        log.append(A, grade)
    log.append(B, None)
    log.append(B, None)
    assert [log.undo(), log.undo()] == [B, A]
    assert log.standing().grades == {A: 1}


def test_a_folder_that_is_gone_is_told_and_no_judgment_is_written(log: JudgmentLog) -> None:
    log.path.parent.rmdir()
    with pytest.raises(EvaluationError, match="not written"):
        log.append(A, 1)


def test_a_line_names_query_document_grade_judge_and_time(log: JudgmentLog) -> None:
    log.append(A, 2)
    line = json.loads(log.path.read_text())
    assert line.pop("utc").endswith("Z")
    assert line == {"action": "grade", "query": "q1", "document": "a", "grade": 2, "judge": "ann"}


def test_a_torn_last_line_is_not_read_and_is_cut_off_before_the_next_one(log: JudgmentLog) -> None:
    log.append(A, 2)
    whole = log.path.read_bytes()
    log.path.write_bytes(whole + b'{"action":"grade","query":"q1","docu')
    assert log.standing().grades == {A: 2}
    log.append(B, 1)
    assert log.standing().grades == {A: 2, B: 1}
    assert log.path.read_bytes().startswith(whole + b'{"action":"grade","query":"q1","document":"b"')


def test_what_was_acknowledged_outlives_a_kill(log: JudgmentLog) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(log.path.parent)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        acknowledged = [int(process.stdout.readline()) for _ in range(20)][-1]
        process.send_signal(signal.SIGKILL)
    assert {PooledPair("q", f"d{n}"): n % 4 for n in range(acknowledged)}.items() <= log.standing().grades.items()
    log.append(A, 3)
    assert log.standing().grades[A] == 3


def test_two_processes_of_one_judge_keep_their_lines_apart(log: JudgmentLog) -> None:
    pairs = [PooledPair("q", f"d{number}") for number in range(60)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda pair: JudgmentLog(log.path.parent, "ann").append(pair, 1), pairs))
    assert log.standing().grades == dict.fromkeys(pairs, 1)


@pytest.mark.parametrize("grade", [-1, 4])
def test_a_grade_out_of_range_is_refused_and_leaves_no_line(log: JudgmentLog, grade: int) -> None:
    with pytest.raises(EvaluationError, match="0 to 3"):
        log.append(A, grade)
    assert log.standing().grades == {}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{}", "not a judgment"),
        ('{"action":"skip","query":"q1","document":"a","judge":"ann","utc":""}\r{}', "not a judgment"),
        ('{"action":"undo","query":"q1","document":"a","judge":"ann","utc":""}', "not the last action of ann"),
        ('{"action":"skip","query":"q1","document":"a","judge":"bob","utc":""}', "in the file of ann"),
        ('{"action":"skip","grade":1,"query":"q1","document":"a","judge":"ann","utc":""}', "belongs to the action"),
    ],
)
def test_a_damaged_line_is_named(log: JudgmentLog, line: str, why: str) -> None:
    log.path.write_text(f"{line}\n")
    with pytest.raises(EvaluationError, match=r"ann\.jsonl:1: "):
        log.standing()
