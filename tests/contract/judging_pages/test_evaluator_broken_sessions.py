"""A session folder with stray, damaged or missing files: what is wrong is named on a page, and the rest goes on."""

import os
import shutil
from pathlib import Path

import httpx
import pytest

from evaluator.judging.export import export_judgments
from evaluator.judging.session import JudgingSession
from tests.support.judging_pages import begun, judged, measured, session_of

SKIPPED = '{{"action":"skip","query":"q0","document":"{}","judge":"{}","utc":""}}\n'


@pytest.fixture
async def path(client: httpx.AsyncClient, run: str) -> str:
    """The address of the pairs of a session in which ann has graded two."""
    path = await begun(client, run)
    await judged(client, path, "2", "1")
    return path


@pytest.fixture
def session(path: str, runs: Path) -> Path:
    return runs / "judging" / session_of(path)


def exported_from(session: Path) -> Path:
    """Returns the only qrels that were measured by."""
    (exported,) = session.glob("judgments-*.qrels")
    return exported


async def pressed(client: httpx.AsyncClient, run: str, session: str) -> httpx.Response:
    """Measures a run by a session."""
    return await measured(client, run, {"session": session})


async def test_files_of_editors_and_systems_beside_those_of_judges_are_left_alone(
    client: httpx.AsyncClient, run: str, path: str, session: Path
) -> None:
    judges = session / "judges"
    (judges / ".#ann.jsonl").symlink_to("somebody@machine.1234")  # the lock of an editor: leads nowhere
    for name in ("ann.jsonl~", "._ann.jsonl", "#ann.jsonl#", ".ann.jsonl.swp", ".DS_Store", "notes.txt"):
        (judges / name).write_bytes(b"\0\xff")
    (judges / "old").mkdir()
    page, listed = await client.get(f"/judge/{session.name}"), await client.get("/judge")
    answer = await pressed(client, run, session.name)
    assert (page.status_code, listed.status_code, answer.status_code) == (200, 200, 303)
    assert 'data-label="Judges">ann</td>' in listed.text
    assert "Go on as ann in" in page.text
    assert "somebody" not in page.text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("Ann.jsonl", "", "Ann.jsonl: is no file of a judge: "),
        (b"ann\xff.jsonl", "", "ann?.jsonl: is no file of a judge: "),
        ("bob.jsonl", None, "bob.jsonl: is no file of a judge: "),
        ("bob.jsonl", '{"action":"skip",\r\n', "bob.jsonl:1: not a judgment: "),
        ("bob.jsonl", SKIPPED.format("nope", "bob"), "bob.jsonl: q0 nope is not in this pool"),
    ],
)
async def test_a_file_that_is_no_judges_is_named_with_what_to_do_and_judging_goes_on(
    client: httpx.AsyncClient, path: str, run: str, session: Path, name: str | bytes, content: str | None, said: str
) -> None:
    file = session / "judges" / os.fsdecode(name)
    if content is None:
        file.mkdir()
    else:
        file.write_text(content)
    answers = [await client.get(f"/judge/{session.name}"), await pressed(client, run, session.name)]
    listed, pair = await client.get("/judge"), await judged(client, path, "0")
    assert [(answer.status_code, said in answer.text) for answer in answers] == [(409, True)] * 2, answers[0].text
    assert all("move the file out of the folder" in answer.text for answer in answers)
    assert listed.status_code == 200
    assert "ann: 3 graded" in pair.text


async def test_a_session_whose_judges_folder_is_gone_says_so_in_place_of_no_grades(
    client: httpx.AsyncClient, path: str, session: Path
) -> None:
    shutil.rmtree(session / "judges")
    answers = [await client.get(f"/judge/{session.name}"), await client.get(path)]
    listed = await client.get("/judge")
    assert [(answer.status_code, "0 graded" in answer.text) for answer in answers] == [(409, False)] * 2
    assert all("an empty one begins the judging anew" in answer.text for answer in (*answers, listed))
    assert "nobody yet" not in listed.text
    (session / "judges").mkdir()
    assert "0 graded" in (await client.get(path)).text


async def test_what_a_kill_left_of_an_export_does_not_keep_the_next_one_from_measuring(
    client: httpx.AsyncClient, run: str, path: str, session: Path
) -> None:
    (session / "judgments.qrels").write_text("q0\t0\tf0\t1\n")  # as releases before left it, without its .json
    first = await pressed(client, run, session.name)
    exported = exported_from(session)
    exported.with_name(f"{exported.name}.json").unlink()
    again = await pressed(client, run, session.name)
    assert (first.status_code, again.status_code) == (303, 303)
    assert exported.with_name(f"{exported.name}.json").is_file()
    assert (session / "judgments.qrels").read_text() == "q0\t0\tf0\t1\n"


def test_an_export_that_was_killed_halfway_is_written_again(path: str, session: Path, tmp_path: Path) -> None:
    file, beside = tmp_path / "more.qrels", tmp_path / "more.qrels.json"
    beside.mkdir()  # the second of the two files cannot be written
    with pytest.raises(OSError, match=r"more\.qrels\.json"):
        export_judgments(JudgingSession(session), file)
    beside.rmdir()
    assert export_judgments(JudgingSession(session), file).judged == 2
    assert (file.is_file(), beside.is_file()) == (True, True)


async def test_folders_that_no_address_can_name_or_that_are_no_sessions_are_left_out_of_the_list(
    client: httpx.AsyncClient, path: str, session: Path
) -> None:
    shutil.copytree(session, session.parent / os.fsdecode(b"old-\xff"))
    (session.parent / "empty").mkdir()
    (session.parent / "gone").mkdir()
    (session.parent / "gone" / "session.json").symlink_to("nowhere")
    listed = await client.get("/judge")
    assert (listed.status_code, listed.text.count('href="/judge/')) == (200, 1)
    assert (await client.get("/judge/old-%ff")).status_code == 404
