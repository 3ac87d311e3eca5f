"""The pages of judging: a session is made, judged by several judges, and changes the figures of a run."""

import asyncio
import html
import json
import re
from pathlib import Path

import httpx

from evaluator.datasets.text_files import sha256
from evaluator.experiments.preference import Preference
from evaluator.judging.session import JudgingSession
from evaluator.machine.process_costs import PipelineCost
from evaluator.report.report_step import ReportChoices, report_step
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.pipeline_costs import CostReport
from tests.support.evaluator_service import evaluator, hanging
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.judging_pages import HOSTILE, QUERIES, TOP, begun, followed, hidden, judged, measured, session_of


async def test_a_session_is_made_from_chosen_pipelines_and_shows_no_system(client: httpx.AsyncClient, run: str) -> None:
    assert "There is no session yet." in (await client.get("/judge")).text
    path = await begun(client, run)
    page = await client.get(path)
    listed = await client.get("/judge")
    assert f'href="/judge/{session_of(path)}"' in listed.text
    assert re.search(r"<h1>.*question \d</h1>", page.text)
    assert f"ann: 0 graded, 0 skipped, {QUERIES * TOP} left" in page.text
    assert not re.search(r"\b(bad|good|rank \d)\b", page.text)


async def test_buttons_grade_skip_and_undo_and_a_session_goes_on(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    path = await begun(client, run)
    page = await judged(client, path, "2", "skip", "1")
    assert "ann: 2 graded, 1 skipped, 15 left" in page.text
    back = await judged(client, path, "undo")
    session = JudgingSession(runs / "judging" / session_of(path))
    first, second, third = session.pairs[:3]
    assert session.standing("ann").grades == {first: 2}
    assert session.standing("ann").skipped == {second}
    assert (hidden(back)["query"], hidden(back)["document"]) == (third.query, third.document)
    await judged(client, path, *(["0"] * 16))
    page = await judged(client, path)
    assert "No pair is left for ann" in page.text
    assert "17 graded, 1 skipped, 0 left" in page.text


async def test_a_session_shows_its_ties_which_can_be_graded_again(client: httpx.AsyncClient, run: str) -> None:
    path = await begun(client, run, judge=" ann  lee ")
    await judged(client, path, *"0123" * 3)
    await judged(client, path.replace("ann+lee", "bob"), *"0023" * 3)
    page = await client.get(f"/judge/{session_of(path)}")
    assert "Tied pairs: 3" in page.text
    (again, *_) = re.findall(r'href="(/judge/[^"]+judge=ann[^"]+document=[^"]+)"', page.text)
    assert "You gave it 1." in (await client.get(html.unescape(again))).text


async def test_only_grades_of_the_collection_are_offered_and_taken(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    path = await begun(client, run)
    file = runs / "judging" / session_of(path) / "session.json"
    file.write_text(file.read_text().replace('"known_grades": [\n    3\n  ]', '"known_grades": [1, 2]'))
    page = await client.get(path)
    answer = await client.post(path.partition("?")[0], data={**hidden(page), "deed": "3"})
    assert re.findall(r'name="deed" value="(\d)"', page.text) == ["0", "1", "2"]
    assert (answer.status_code, "they end at 2" in answer.text) == (422, True)


async def test_a_run_is_measured_by_the_judgments_of_a_session_and_without_them_again(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    path = await begun(client, run)
    await judged(client, path, *(["2"] * QUERIES * TOP))
    page = await client.get(f"/judge/{session_of(path)}")
    assert f'action="/measure/{run}"' in page.text
    before = json.loads((runs / run / "report.json").read_text())
    after = await measured(client, run, {"session": session_of(path)})
    report = json.loads((runs / run / "report.json").read_text())
    shown = await client.get(f"/runs/{run}")
    alone = await measured(client, run, {"session": ""})
    assert (after.status_code, after.headers["location"]) == (303, f"/runs/{run}")
    (file,) = report["added_judgments"]["files"]
    assert (Path(file["file"]).name, file["added"]) == (f"judgments-{file['sha256'][:12]}.qrels", QUERIES * TOP)
    assert "Figures before and after the judgments were added" in shown.text
    assert alone.status_code == 303
    assert json.loads((runs / run / "report.json").read_text())["pipelines"] == before["pipelines"]


async def test_a_run_that_is_measured_again_keeps_what_was_asked_of_its_report(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    folder = RunFolder(runs / run)
    names = folder.experiment.arms
    costs = {
        name: PipelineCost(queries=6, lost=0, seconds=1.0, cpu_ms=cpu_ms, processes={})
        for name, cpu_ms in zip(names, (2.0, 50.0), strict=True)
    }
    folder.write("costs.json", CostReport(indexes={}, pipelines=costs))
    before = report_step(folder, ReportChoices(names[1], Preference("cpu")))
    path = await begun(client, run)
    await judged(client, path, *(["2"] * QUERIES * TOP))
    await measured(client, run, {"session": session_of(path)})
    after = folder.read("report.json", Report)
    assert after.added_judgments is not None
    assert before.recommendation is not None
    assert after.recommendation is not None
    assert (before.recommendation.prefer, before.baseline) == ("cpu", names[1])
    assert (after.recommendation.prefer, after.baseline) == ("cpu", names[1])


async def test_rankings_are_read_when_a_session_is_made_and_not_for_its_form(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    (runs / run / "answers" / "good.jsonl").write_text("")
    form = await client.get(f"/judge?runs={run}")
    fields = {"runs": run, "pipelines": f"{run}:good", "judge": "ann", "top": "3", "seed": "1"}
    made = await followed(client, await client.post("/judge", data=fields))
    assert (form.status_code, made.status_code) == (200, 409)
    assert "good.jsonl is not the one that rank.json was made from" in made.text


async def test_a_judge_who_goes_on_or_grades_again_keeps_the_order(client: httpx.AsyncClient, run: str) -> None:
    path = await begun(client, run, order="impact")
    await judged(client, path, *"01")
    await judged(client, path.replace("ann", "bob").replace("impact", "pool"), *"23" * 9)
    page = await judged(client, path)
    session = await client.get(re.findall(r'href="(/judge/[^"]+)">(?i:the session)<', page.text)[0])
    links = [html.unescape(link) for link in re.findall(r'href="(/judge/[^"]+judge=ann[^"]*)"', session.text)]
    ways_on, again = [link for link in links if "query=" not in link], [link for link in links if "query=" in link]
    assert [link.rpartition("=")[2] for link in ways_on] == ["pool", "impact"]
    assert again
    assert hidden(await client.get(again[0]))["order"] == "impact"
    assert 'value="impact" checked' in session.text


async def test_the_judgments_behind_a_report_stay_and_a_second_session_is_not_dropped(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    first, second = await begun(client, run), await begun(client, run, seed="8")
    await judged(client, first, "2")
    await judged(client, second, "1", "3")
    asked = [{"session": session_of(path)} for path in (first, second)]
    answers = await asyncio.gather(*(measured(client, run, data) for data in asked))
    (by_last,) = json.loads((runs / run / "report.json").read_text())["added_judgments"]["files"]
    await judged(client, first, "0")
    again = await measured(client, run, asked[0])
    (by_first,) = json.loads((runs / run / "report.json").read_text())["added_judgments"]["files"]
    assert [answer.status_code for answer in (*answers, again)] == [303] * 3
    # Which of two requests at once ends last is not promised.
    added = {session_of(first): 1, session_of(second): 2}
    assert (by_last["added"], by_first["added"]) == (added[Path(by_last["file"]).parent.name], 2)
    folder = runs / "judging" / session_of(first)
    assert len(list(folder.glob("judgments-*.qrels"))) == len(list(folder.glob("judgments-*.qrels.json"))) == 2
    assert sha256(Path(by_last["file"])) == by_last["sha256"]


NOT_HERE = (
    ("/judge/none", 404, "No judging session none here"),
    ("/judge/%2e%2e", 404, "No judging session .. here"),
    ("/judge/%2e%2e%2f%2e%2e", 404, ""),
    ("/judge/{session}/pair?judge=../ann", 422, "cannot be the name of a judge"),
    (f"/judge/{{session}}/pair?judge={HOSTILE}", 422, "&lt;script&gt;alert(1)&lt;/script&gt;"),
    ("/judge/{session}/pair?judge=ann&order=best", 422, "there are pool, impact"),
    ("/judge/{session}/pair?judge=ann&query=q0&document=nope", 404, "in this session&#39;s pool"),
    ("/judge?runs=../x", 404, "No run ../x here"),
    ("/judge?page=2", 404, "has the pages 1 to 1"),
    ("/measure/none", 404, "No run none here"),
)


async def test_what_is_not_here_is_said_on_a_page(client: httpx.AsyncClient, run: str) -> None:
    session = session_of(await begun(client, run))
    for path, status, said in NOT_HERE:
        answer = await client.get(path.format(session=session))
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
        assert "<script>" not in answer.text


NO_JUDGMENTS: tuple[tuple[dict[str, str], int, str], ...] = (
    ({"deed": "7"}, 422, "a grade is 0 to 3"),
    ({"deed": HOSTILE}, 422, "a grade is 0 to 3"),
    ({"deed": ""}, 422, "a grade is 0 to 3"),
    ({"deed": "1", "document": "r0"}, 404, "in this session&#39;s pool"),
    ({"deed": "1", "judge": "Ann"}, 422, "cannot be the name of a judge"),
)


async def test_a_judgment_that_is_none_is_refused_and_nothing_is_written(
    client: httpx.AsyncClient, run: str, runs: Path
) -> None:
    path = await begun(client, run)
    page = await client.get(path)
    for changed, status, said in NO_JUDGMENTS:
        answer = await client.post(path.partition("?")[0], data={**hidden(page), **changed})
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
        assert "<script>" not in answer.text
    assert not list((runs / "judging" / session_of(path) / "judges").iterdir())


NO_SESSIONS: tuple[tuple[dict[str, object], str], ...] = (
    ({"top": "11"}, "was ranked 10 deep"),
    ({"top": "0"}, "top: pool 1 to 1000"),
    ({"seed": "-1"}, "is no page or number"),
    ({"judge": HOSTILE}, "cannot be the name of a judge"),
    ({"pipelines": []}, "tick one or more"),
)


async def test_a_session_that_cannot_be_made_is_refused_with_the_reason(client: httpx.AsyncClient, run: str) -> None:
    asked = {"top": "3", "seed": "77", "judge": "ann", "order": "pool", "pipelines": [f"{run}:good"]}
    for changed, said in NO_SESSIONS:
        form = await client.get(f"/judge?runs={run}")
        answer = await followed(client, await client.post("/judge", data={**hidden(form), **asked, **changed}))
        assert (answer.status_code in (409, 422), said in answer.text) == (True, True), answer.text
        assert "<script>" not in answer.text


async def test_texts_are_shown_and_not_run_while_a_pair_is_judged(client: httpx.AsyncClient, run: str) -> None:
    path = await begun(client, run)
    pages = [await judged(client, path)]
    for _ in range(QUERIES * TOP - 1):
        pages.append(await judged(client, path, "1"))
    assert sum("<h2>&lt;script&gt;alert(1)" in page.text for page in pages) == QUERIES
    assert sum("<h1>&lt;script&gt;alert(1)" in page.text for page in pages) == TOP
    assert not any("<script>" in page.text for page in pages)
    script = '<script src="/pages/judge.js" defer></script>'
    for page in pages:
        assert page.text.count("<script") == page.text.count(script) == 1
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page.text)
        assert "default-src 'none'" in page.headers["content-security-policy"]


async def test_nothing_slow_is_begun_while_an_experiment_is_measured(run: str, runs: Path, tmp_path: Path) -> None:
    stub = GatewayStub(hangs_after=0)
    body = {"name": "small", "dataset": str(write_shop(tmp_path / "other")), "pipelines": ["bm25"]}
    async with evaluator(stub, runs) as client:
        path = await begun(client, run)
        await judged(client, path, "1")
        await client.post("/v1/experiments", json=body)
        await hanging(stub)
        fields = {"runs": run, "pipelines": f"{run}:good", "judge": "ann", "order": "pool", "top": "3", "seed": "1"}
        answers = [
            await client.post("/judge", data=fields),
            await client.post(f"/measure/{run}", data={"session": session_of(path)}),
        ]
        still = await judged(client, path, "1")
    assert [(answer.status_code, " is running in " in answer.text) for answer in answers] == [(503, True)] * 2
    assert not any("refresh" in answer.headers for answer in answers)  # a form is not sent again
    assert "2 graded" in still.text


async def test_a_session_of_another_release_is_listed_as_such(client: httpx.AsyncClient, run: str, runs: Path) -> None:
    name = session_of(await begun(client, run))
    (runs / "judging" / name / "session.json").write_text("{}")
    listed, opened = await client.get("/judge"), await client.get(f"/judge/{name}")
    assert "of another release" in listed.text
    assert (opened.status_code, "make a new pool" in opened.text) == (409, True)
