"""The service reads datasets and writes runs beneath configured folders alone, and tells nothing of other paths."""

import html
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import httpx
import pytest

from evaluator.report.evaluation import quality_step
from evaluator.report.report_step import report_step
from evaluator.service.jobs import JobState
from evaluator.steps.run_import import import_runs
from tests.support.evaluator_service import ended, evaluator
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.simulated_runs import write_collection, write_three_rankings

# What a caller sends, made from the folders `served`, `outside` and the one that holds both.
NOT_SERVED: Mapping[str, str] = {
    "existing": "{top}/outside/shop",
    "missing": "{top}/outside/none",
    "existing file": "{top}/outside/shop/corpus.jsonl",
    "below a file": "{top}/outside/shop/corpus.jsonl/x",
    "machine": "/etc",
    "root": "/",
    "process": "/proc/self/cwd",
    "relative": "evaluator/collections/bicycle-workshop",
    "relative missing": "evaluator/collections/none",
    "working directory": ".",
    "parent": "..",
    "up": "{top}/served/../outside/shop",
    "up missing": "{top}/served/../outside/none",
    "up by name": "../outside/shop",
    "up by name missing": "../outside/none",
    "up through a missing folder": "{top}/served/none/../../outside/shop",
    "up through a link": "{top}/served/link/../shop",
    "up by name through a link": "link/../shop",
    "up and back": "{top}/outside/../served/shop",
    "up and back from what is missing": "{top}/none/../served/shop",
    "beside": "{top}/served-too/shop",
    "link": "{top}/served/link",
    "link by name": "link",
    "below a link": "{top}/served/leads/shop",
    "below a link missing": "{top}/served/leads/none",
    "link to nothing": "{top}/served/nothing",
    "links in a circle": "{top}/served/circle",
    "link elsewhere that leads in": "{top}/outside/leads-in/shop",
    "linked corpus": "{top}/served/linked-corpus",
    "linked corpus missing": "{top}/served/linked-corpus-missing",
    "linked judgments": "{top}/served/linked-judgments",
    "NUL": "{top}/served/shop\0",
    "NUL before a path": "\0{top}/outside/shop",
    "white space": "  ",
    "home": "~",
    "too long": "x" * 5_000,
    "too long path": "{top}/served/" + "x/" * 5_000,
    "served and missing": "{top}/served/none",
    "name of no set here": "nfcorpus",
}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """Three folders with the same collection; `served` has links that lead out of it."""
    served, outside = tmp_path / "served", tmp_path / "outside"
    for folder in (served, outside, tmp_path / "served-too"):
        write_shop(folder / "shop")
    (outside / "leads-in").symlink_to(served)
    for name, target in {
        "link": outside / "shop",
        "leads": outside,
        "nothing": outside / "none",
        "circle": served / "circle",
        "shop-too": served / "shop",
    }.items():
        (served / name).symlink_to(target)
    for name, file, target in (
        ("linked-corpus", "corpus.jsonl", outside / "shop" / "corpus.jsonl"),
        ("linked-corpus-missing", "corpus.jsonl", outside / "none"),
        ("linked-judgments", "qrels/test.tsv", outside / "shop" / "qrels" / "test.tsv"),
    ):
        (write_shop(served / name) / file).unlink()
        (served / name / file).symlink_to(target)
    return tmp_path


@pytest.fixture
async def client(top: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with evaluator(GatewayStub(), top / "runs", [top / "served"]) as client:
        client.headers["x-deadline-ms"] = "60000"  # a busy machine is not what these tests are about
        yield client


async def by_api(client: httpx.AsyncClient, sent: str) -> httpx.Response:
    body = {"name": "small", "dataset": sent, "pipelines": ["bm25"]}
    return await client.post("/v1/experiments", json=body)


async def by_form(client: httpx.AsyncClient, sent: str) -> httpx.Response:
    return await client.post("/new", data={"experiment": "demo", "pipelines": "bm25", "dataset": sent})


def said(answer: httpx.Response, sent: str) -> tuple[int, str]:
    """Returns the status of an answer, and all that it says but for what was sent."""
    quoted = repr(sent[:80])
    if answer.headers["content-type"] == "application/problem+json":
        problem = answer.json()
        assert quoted in problem["detail"]
        text = json.dumps({**problem, "detail": problem["detail"].replace(quoted, "SENT"), "request_id": ""})
    else:
        alert = re.search(r'role="alert">(.*?)</p>', answer.text, re.DOTALL)
        assert alert is not None
        assert quoted in html.unescape(alert[1])
        text = html.unescape(alert[1]).replace(quoted, "SENT")
    return answer.status_code, text


@pytest.mark.parametrize("route", [by_api, by_form])
async def test_a_path_that_is_not_served_is_refused_like_one_that_does_not_exist(
    client: httpx.AsyncClient, top: Path, route: Callable[[httpx.AsyncClient, str], Awaitable[httpx.Response]]
) -> None:
    told = {}
    for name, pattern in NOT_SERVED.items():
        if pattern.strip() or route != by_form:  # an empty field of the form is the experiment's own dataset
            sent = pattern.replace("{top}", str(top))
            told[name] = said(await route(client, sent), sent)
    assert {name: answer for name, answer in told.items() if answer != told["missing"]} == {}
    status, text = told["missing"]
    assert (status, str(top) in text) == (422, False)
    assert not (top / "runs").exists()


@pytest.mark.parametrize(
    "sent", ["{top}/served/shop", "shop", "./shop/", "{top}/served/./shop", "{top}//served//shop", "shop-too"]
)
async def test_a_dataset_beneath_a_served_folder_is_taken_by_path_and_by_name(top: Path, sent: str) -> None:
    async with evaluator(GatewayStub(), top / "runs", [top / "served"]) as client:
        started = await by_api(client, sent.replace("{top}", str(top)))
        assert started.status_code == 202, started.text
        assert (await ended(client, started.json()["id"]))["state"] == "done"


async def test_a_form_takes_a_dataset_beneath_a_served_folder(top: Path) -> None:
    async with evaluator(GatewayStub(), top / "runs", [top / "served"]) as client:
        started = await by_form(client, " shop ")
        assert started.status_code == 303, started.text
        assert (await ended(client, started.headers["location"].removeprefix("/runs/")))["state"] == "done"


async def test_a_dataset_is_taken_by_a_path_from_the_working_directory(top: Path) -> None:
    working = Path.cwd()
    sent = "/".join(".." for _ in working.parts[1:]) + f"{top}/served/shop"
    async with evaluator(GatewayStub(), top / "runs", [top / "served"]) as client:
        refused = await by_api(client, f"tests/../{sent}")
        started = await by_api(client, sent)
    assert (refused.status_code, started.status_code) == (422, 202)


async def test_a_served_folder_may_be_a_dataset_itself(top: Path) -> None:
    async with evaluator(GatewayStub(), top / "runs", [top / "outside" / "shop"]) as client:
        answers = [await by_api(client, sent) for sent in (f"{top}/outside", "served", "shop")]
        page = await client.get("/new")
    assert [answer.status_code for answer in answers] == [422, 422, 202]
    assert '<option value="shop">' in page.text


async def test_a_name_of_the_catalogue_has_the_split_of_the_catalogue(top: Path) -> None:
    (write_shop(top / "served" / "msmarco") / "qrels" / "test.tsv").rename(top / "served" / "msmarco/qrels/dev.tsv")
    async with evaluator(GatewayStub(), top / "runs", [top / "served"]) as client:
        started = await by_api(client, "msmarco")
        assert started.status_code == 202, started.text


async def test_the_form_offers_what_is_served_and_nothing_else(client: httpx.AsyncClient) -> None:
    offered = (await client.get("/new")).text.partition('id="dataset"')[2].partition("</select>")[0]
    assert re.findall(r'<option value="([^"]+)"', offered) == ["shop", "shop-too"]


async def test_no_dataset_is_served_where_no_folder_is_configured(top: Path) -> None:
    async with evaluator(GatewayStub(), top / "runs", []) as client:
        answers = [await by_api(client, sent) for sent in (f"{top}/served/shop", "shop", ".")]
    assert [answer.status_code for answer in answers] == [422] * 3


async def test_a_fault_of_a_served_dataset_is_told_by_its_place_in_the_folder(
    client: httpx.AsyncClient, top: Path
) -> None:
    with (top / "served" / "shop" / "corpus.jsonl").open("a") as file:
        file.write("no JSON\n")
    started = await by_api(client, f"{top}/served/shop")
    state = await ended(client, started.json()["id"])
    page = await client.get(f"/runs/{state['id']}")
    assert (state["state"], state["detail"].partition(" ")[0]) == ("failed", "shop/corpus.jsonl:7:")
    assert str(top) not in state["detail"] + page.text


@pytest.fixture
def run(top: Path) -> str:
    """A run of two pipelines that the command line has made, over a collection that is not served."""
    files = write_three_rankings(top / "outside")
    named = {"bad": files["bad"], "good": files["good"]}
    dataset = write_collection(top / "outside" / "elsewhere", 6)
    folder = import_runs(top / "runs", named, dataset, split="test", name=None, depth=10)
    quality_step(folder)
    report_step(folder)
    return folder.name


async def waited(client: httpx.AsyncClient, answer: httpx.Response) -> httpx.Response:
    while (again := answer.headers.get("refresh")) is not None and answer.status_code == 200:
        answer = await client.get(again.partition("url=")[2] or str(answer.url))
    return answer


async def test_a_run_of_the_command_line_over_any_dataset_is_shown_compared_judged_and_measured(
    client: httpx.AsyncClient, run: str
) -> None:
    page = await client.get(f"/runs/{run}")
    fields = {"top": "3", "seed": "7", "judge": "ann", "order": "pool", "runs": run}
    pooled = {"pipelines": [f"{run}:bad", f"{run}:good"]}
    answers = [
        page,
        await client.post("/v1/comparisons", json={"runs": [run]}),
        await waited(client, await client.get(f"/compare?runs={run}")),
        await waited(client, await client.post("/judge", data={**fields, **pooled})),
        await waited(client, await client.post(f"/measure/{run}", data={"session": ""})),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 303, 303]


async def test_errors_over_a_dataset_that_is_not_served_name_its_files_without_their_folder(
    client: httpx.AsyncClient, top: Path, run: str
) -> None:
    (top / "outside" / "elsewhere" / "qrels" / "test.tsv").unlink()
    fields = {"top": "3", "seed": "7", "judge": "ann", "order": "pool", "runs": run}
    pooled = {"pipelines": [f"{run}:bad", f"{run}:good"]}
    answers = [
        await client.post("/v1/comparisons", json={"runs": [run]}),
        await waited(client, await client.get(f"/compare?runs={run}")),
        await waited(client, await client.post("/judge", data={**fields, **pooled})),
        await waited(client, await client.post(f"/measure/{run}", data={"session": ""})),
    ]
    assert [answer.status_code for answer in answers] == [409] * 4
    for answer in answers:
        assert "test.tsv: no such file" in answer.text
        assert str(top) not in answer.text


async def test_a_report_that_cannot_be_read_is_told_without_the_folder_of_runs(
    client: httpx.AsyncClient, top: Path, run: str
) -> None:
    (top / "runs" / run / "report.json").write_text("{}")
    answers = [await client.get(path) for path in (f"/v1/experiments/{run}/report", f"/runs/{run}", "/readyz")]
    assert [answer.status_code for answer in answers] == [409, 409, 200]
    assert f"{run}/report.json: not of this version" in answers[0].json()["detail"]
    assert str(top) not in "".join(answer.text for answer in answers)


RUN_ROUTES = (
    ("GET", "/v1/experiments/{run}"),
    ("GET", "/v1/experiments/{run}/report"),
    ("DELETE", "/v1/experiments/{run}"),
    ("GET", "/runs/{run}"),
    ("GET", "/progress/{run}"),
    ("GET", "/compare?runs={run}"),
    ("GET", "/judge?runs={run}"),
    ("POST", "/judge?runs={run}"),
    ("POST", "/cancel/{run}"),
    ("POST", "/measure/{run}"),
    ("GET", "/measure/{run}"),
    ("POST", "/v1/comparisons"),
)


async def test_a_run_whose_folder_is_a_link_that_leads_out_is_none(
    client: httpx.AsyncClient, top: Path, run: str
) -> None:
    linked, missing = ("20260101T000000000Z-x-00000000", "20260102T000000000Z-x-00000000")
    (top / "runs" / run).rename(top / "outside" / run)
    (top / "runs" / linked).symlink_to(top / "outside" / run)
    for method, path in RUN_ROUTES:
        told = []
        for name in (linked, missing):
            if path == "/v1/comparisons":
                answer = await client.post(path, json={"runs": [name]})
            else:
                fields = {"runs": name, "session": ""} if method == "POST" else None
                answer = await client.request(method, path.replace("{run}", name), data=fields)
            told.append((answer.status_code, re.sub(r'"request_id":"\w+"', "", answer.text).replace(name, "NAME")))
        assert told[0] == told[1], path
        assert told[0][0] == 404, path
    assert (await client.get("/v1/experiments")).json() == {"experiments": []}


async def test_a_session_that_is_no_folder_of_the_runs_is_none(client: httpx.AsyncClient, top: Path, run: str) -> None:
    (top / "runs" / "judging").mkdir()
    (top / "outside" / "session").mkdir()
    (top / "outside" / "session" / "session.json").write_text("{}")
    (top / "runs" / "judging" / "linked").symlink_to(top / "outside" / "session")
    assert "/judge/linked" not in (await client.get("/judge")).text
    for name in ("linked", "..", "../../outside/session", "/etc", "%2Fetc", "none"):
        measured = await client.post(f"/measure/{run}", data={"session": name})
        opened = await client.get(f"/judge/{name}/pair?judge=ann")
        assert (measured.status_code, opened.status_code) == (404, 404), name
        assert str(top) not in measured.text + opened.text


async def test_the_state_that_an_earlier_release_left_is_told_without_the_folders(
    client: httpx.AsyncClient, top: Path, run: str
) -> None:
    (top / "runs" / run / "report.json").unlink()
    state = JobState(id=run, state="failed", step="ingest", detail=f"{top}/served/shop/corpus.jsonl:7: not JSON")
    (top / "runs" / run / "state.json").write_text(state.model_dump_json())
    answer = (await client.get(f"/v1/experiments/{run}")).json()
    assert (answer["state"], answer["detail"]) == ("failed", "shop/corpus.jsonl:7: not JSON")
