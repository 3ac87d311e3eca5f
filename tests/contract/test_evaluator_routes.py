"""The evaluator's HTTP service: the same steps, in the background, one experiment at a time."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from evaluator.experiments.experiment import Experiment
from evaluator.runs.measurement_lock import measuring
from evaluator.runs.run_folder import RunFolder
from evaluator.service.app import build_app
from evaluator.settings import EvaluatorSettings
from evaluator.steps.run_import import import_runs
from services.chassis.errors import Overloaded, Unavailable
from tests.support.evaluator_service import ended, evaluator, hanging
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.held_files import held_back
from tests.support.opened_client import opened_client


@pytest.fixture
def body(tmp_path: Path) -> dict[str, object]:
    return {"name": "small", "dataset": str(write_shop(tmp_path / "shop")), "pipelines": ["bm25"]}


async def test_an_experiment_is_started_watched_and_reported(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        started = await client.post("/v1/experiments", json=body)
        assert started.status_code == 202
        run = started.json()["id"]
        assert (await ended(client, run))["state"] == "done"
        report = (await client.get(f"/v1/experiments/{run}/report")).json()
    assert report["pipelines"]["bm25"]["queries"] == 4
    async with evaluator(GatewayStub(), tmp_path / "runs") as later:
        assert (await later.get(f"/v1/experiments/{run}")).json()["state"] == "done"


async def test_a_second_experiment_at_once_is_a_409_that_names_the_first(
    body: dict[str, object], tmp_path: Path
) -> None:
    stub = GatewayStub(failing_loads=[Overloaded("full")])
    async with evaluator(stub, tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        refused = await client.post("/v1/experiments", json=body)
        assert refused.status_code == 409
        assert run in refused.json()["detail"]
        assert (await client.get(f"/v1/experiments/{run}/report")).status_code == 404


async def test_a_failed_experiment_says_why_also_after_a_restart(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(refused_documents={"d3"}), tmp_path / "runs") as client:
        started = await client.post("/v1/experiments", json=body)
        state = await ended(client, started.json()["id"])
    assert (state["state"], state["step"]) == ("failed", "ingest")
    assert "lexical: d3: no" in state["detail"]
    async with evaluator(GatewayStub(), tmp_path / "runs") as later:
        assert (await later.get(f"/v1/experiments/{state['id']}")).json() == state


async def test_an_experiment_whose_service_was_killed_was_interrupted(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(failing_loads=[Overloaded("full")]), tmp_path / "runs") as client:
        state = (await client.post("/v1/experiments", json=body)).json()
        left = (tmp_path / "runs" / state["id"] / "state.json").read_text()
    (tmp_path / "runs" / state["id"] / "state.json").write_text(left)  # as a kill leaves it
    async with evaluator(GatewayStub(), tmp_path / "runs") as later:
        after = (await later.get(f"/v1/experiments/{state['id']}")).json()
    assert (after["state"], after["step"], after["detail"]) == (
        "interrupted", "ingest", "the service ended while it ran",
    )  # fmt: skip


async def test_an_experiment_stopped_while_it_ranked_says_which_command_goes_on(
    body: dict[str, object], tmp_path: Path
) -> None:
    stub = GatewayStub(hangs_after=3)
    async with evaluator(stub, tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        await hanging(stub)
    async with evaluator(GatewayStub(), tmp_path / "runs") as later:
        state = (await later.get(f"/v1/experiments/{run}")).json()
    assert (state["state"], state["step"]) == ("interrupted", "rank")
    assert f"evaluator rank --run {run} --gateway http://gateway` goes on" in state["detail"]


async def test_a_running_experiment_tells_how_far_its_step_is(body: dict[str, object], tmp_path: Path) -> None:
    stub = GatewayStub(hangs_after=8, failing_queries={"oil chain": Unavailable("gone")})
    async with evaluator(stub, tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        await hanging(stub)
        state = (await client.get(f"/v1/experiments/{run}")).json()
    progress = state["progress"]
    assert (state["step"], progress["part"], progress["total"], progress["unit"]) == ("rank", "Ranking", 4, "queries")
    assert 0 < progress["done"] < 4
    assert progress["lost"] <= 1
    assert progress["seconds_left"] > 0


async def test_a_running_experiment_is_cancelled_and_keeps_the_files_of_completed_steps(
    body: dict[str, object], tmp_path: Path
) -> None:
    stub = GatewayStub(hangs_after=3)
    async with evaluator(stub, tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        await hanging(stub)
        cancelled = await client.delete(f"/v1/experiments/{run}")
        again = await client.delete(f"/v1/experiments/{run}")
        stub.hangs_after = None
        following = await client.post("/v1/experiments", json=body)  # the lock is free
        await ended(client, following.json()["id"])
    assert (cancelled.status_code, cancelled.json()["state"], cancelled.json()["step"]) == (200, "interrupted", "rank")
    assert cancelled.json()["detail"].startswith("cancelled on request; `")
    assert (tmp_path / "runs" / run / "ingest.json").exists()
    assert (again.status_code, "there is nothing to cancel" in again.json()["detail"]) == (409, True)
    assert following.status_code == 202


async def test_an_experiment_that_the_command_line_has_finished_is_done(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        state = await ended(client, run)
    (tmp_path / "runs" / run / "state.json").write_text(json.dumps({**state, "state": "interrupted"}))
    async with evaluator(GatewayStub(), tmp_path / "runs") as later:
        assert (await later.get(f"/v1/experiments/{run}")).json()["state"] == "done"


async def test_a_load_of_the_command_line_is_done_when_its_last_file_is_there(
    body: dict[str, object], tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "runs", Experiment.model_validate(body))
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        answer = await client.get(f"/v1/experiments/{folder.name}")
        assert (answer.json()["state"], answer.json()["step"]) == ("interrupted", "unknown")
        folder.write_text("load.json", "{}")
        answer = await client.get(f"/v1/experiments/{folder.name}")
        assert (answer.json()["state"], answer.json()["step"]) == ("done", "load")


async def test_a_loaded_collection_is_done_until_a_query_of_it_was_answered(
    body: dict[str, object], tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "runs", Experiment.model_validate(body))
    folder.write_text("ingest.json", "{}")
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        state = (await client.get(f"/v1/experiments/{folder.name}")).json()
        assert (state["state"], state["step"]) == ("done", "ingest")
        folder.answers("bm25").parent.mkdir()
        folder.answers("bm25").touch()
        state = (await client.get(f"/v1/experiments/{folder.name}")).json()
        assert (state["state"], state["step"]) == ("interrupted", "unknown")


async def test_a_run_that_a_command_measures_is_running(body: dict[str, object], tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    run, other = (RunFolder.create(runs, Experiment.model_validate(body)).name for _ in range(2))
    states = []
    async with evaluator(GatewayStub(), runs) as client:
        with measuring(runs) as lock:
            for name in (run, f"ingest of {run}"):
                lock.name(name)
                states.append([(await client.get(f"/v1/experiments/{name}")).json()["state"] for name in (run, other)])
            page = await client.get(f"/runs/{run}")
        (runs / ".measurement.lock").write_text(run)  # as a killed process leaves it
        after = (await client.get(f"/v1/experiments/{run}")).json()["state"]
    assert states == [["running", "interrupted"]] * 2
    assert after == "interrupted"
    assert "a command measures it" in page.text
    assert "Cancel" not in page.text


async def test_all_experiments_are_listed_the_newest_first(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        assert (await client.get("/v1/experiments")).json() == {"experiments": []}
        runs = []
        for name in ("first", "second"):
            runs.append((await client.post("/v1/experiments", json={**body, "name": name})).json()["id"])
            await ended(client, runs[-1])
        (tmp_path / "runs" / "elsewhere").mkdir()
        (tmp_path / "runs" / "elsewhere" / "experiment.json").write_text("{}")
        listed = (await client.get("/v1/experiments")).json()["experiments"]
    assert [(state["id"], state["state"]) for state in listed] == [(run, "done") for run in reversed(runs)]


@pytest.mark.parametrize(
    ("wrong", "status", "said"),
    [
        ({"pipelines": ["bm26"]}, 404, "there are bm25, dense, hybrid"),
        ({"split": "dev"}, 422, "dataset: shop/qrels/dev.tsv: no such file; splits there: test"),
        ({"gates": {"cpu_ms": 40}}, 422, "gates.cpu_ms: the service measures no CPU time"),
    ],
)
async def test_what_cannot_run_is_refused_before_anything_is_written(
    body: dict[str, object], tmp_path: Path, wrong: dict[str, object], status: int, said: str
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        answer = await client.post("/v1/experiments", json={**body, **wrong})
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.json()
    assert not (tmp_path / "runs").exists()


async def test_without_a_gateway_no_experiment_is_started(body: dict[str, object], tmp_path: Path) -> None:
    settings = EvaluatorSettings(runs=tmp_path / "runs", gateway_url="http://127.0.0.1:9", datasets=(tmp_path,))
    async with opened_client(build_app(settings)) as client:
        answer = await client.post("/v1/experiments", json=body)
    assert (answer.status_code, "is the gateway up" in answer.json()["detail"]) == (503, True)


async def test_a_dataset_that_no_path_can_name_is_a_422(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        answer = await client.post(
            "/v1/experiments",
            content=json.dumps({**body, "dataset": "shop\ud800"}),
            headers={"content-type": "application/json"},
        )
    assert (answer.status_code, answer.json()["detail"]) == (422, "dataset: must not contain lone surrogates")


async def test_runs_that_cannot_be_written_are_a_503_that_names_the_setting(
    body: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "runs").write_text("a file where the directory should be")
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        answer = await client.post("/v1/experiments", json=body)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "The folder of runs cannot be written: File exists; see EVALUATOR_RUNS."


async def test_pipelines_of_a_run_are_compared(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        started = await client.post("/v1/experiments", json=body | {"pipelines": ["bm25", "dense"]})
        run = started.json()["id"]
        await ended(client, run)
        asked = {"runs": [f"{run}:bm25", f"{run}:dense"], "no_worse_than": 0.05}
        answer = await client.post("/v1/comparisons", json=asked)
        unknown = await client.post("/v1/comparisons", json={"runs": [f"{run}:bm25", f"{run}:other"]})
    assert answer.status_code == 200
    (pair,) = answer.json()["pairs"]
    assert pair["verdict"]["sentence"].startswith("This collection cannot tell dense from bm25: nDCG@10 +0.0000")
    assert answer.json()["no_worse"] is False  # four queries show nothing
    assert (unknown.status_code, unknown.json()["title"]) == (409, "Conflict with the present state")
    assert "has no pipeline 'other'; it has bm25, dense" in unknown.json()["detail"]


async def test_a_comparison_that_is_known_is_answered_beside_a_measurement_and_another_one_is_put_off(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body | {"pipelines": ["bm25", "dense"]})).json()["id"]
        await ended(client, run)
        asked = {"runs": [run], "examples": 0}
        first = await client.post("/v1/comparisons", json=asked)
        with measuring(tmp_path / "runs") as lock:  # as a command does, or an experiment of this service
            lock.name("20260101T000000000Z-other")
            known = await client.post("/v1/comparisons", json=asked)
            other = await client.post("/v1/comparisons", json=asked | {"metric": "P@10"})
        later = await client.post("/v1/comparisons", json=asked | {"metric": "P@10"})
    assert known.json() == first.json()
    assert (other.status_code, int(other.headers["retry-after"]) > 0) == (503, True)
    assert "20260101T000000000Z-other is running in " in other.json()["detail"]
    assert later.status_code == 200


async def test_no_experiment_begins_while_a_comparison_is_computed(body: dict[str, object], tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body | {"pipelines": ["bm25", "dense"]})).json()["id"]
        await ended(client, run)
        other = body | {"dataset": str(write_shop(tmp_path / "other"))}
        with held_back(tmp_path / "shop" / "queries.jsonl"):
            comparison = asyncio.create_task(client.post("/v1/comparisons", json={"runs": [run], "examples": 0}))
            await asyncio.sleep(0.05)
            refused = await client.post("/v1/experiments", json=other)
        compared = await comparison
        started = await client.post("/v1/experiments", json=other)
    assert (refused.status_code, "a comparison is running in " in refused.json()["detail"]) == (409, True)
    assert (compared.status_code, started.status_code) == (200, 202)


async def test_runs_over_several_datasets_are_listed_reported_and_compared(
    body: dict[str, object], tmp_path: Path
) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        started = await client.post("/v1/experiments", json=body | {"pipelines": ["bm25", "dense"]})
        run = started.json()["id"]
        await ended(client, run)
        suite = "20260101T000000000Z-both-0123abcd"
        shutil.copytree(tmp_path / "runs" / run, tmp_path / "runs" / suite / "shop")
        (tmp_path / "runs" / suite / "shop" / "state.json").unlink()
        (tmp_path / "runs" / suite / "suite.json").touch()
        listed = (await client.get("/v1/experiments")).json()["experiments"]
        assert {state["id"]: state["state"] for state in listed} == {run: "done", f"{suite}/shop": "done"}
        assert (await client.get(f"/v1/experiments/{suite}/shop")).json()["state"] == "done"
        report = await client.get(f"/v1/experiments/{suite}/shop/report")
        assert report.json()["pipelines"]["bm25"]["queries"] == 4
        assert "<h1>small: shop, split test</h1>" in (await client.get(f"/runs/{suite}/shop")).text
        assert f'href="/runs/{suite}/shop">both/shop, 2026-01-01 00:00:00</a>' in (await client.get("/")).text
        refused = await client.post("/v1/comparisons", json={"runs": [suite]})
        compared = await client.post("/v1/comparisons", json={"runs": [f"{suite}/shop:bm25", f"{suite}/shop:dense"]})
    assert refused.json()["detail"] == f"{suite} holds several runs; name one of them: {suite}/shop"
    assert compared.json()["pairs"][0]["verdict"]["outcome"] == "cannot tell"


@pytest.mark.parametrize(
    ("runs", "status", "said"),
    [
        (["latest"], 422, "'latest' is no run folder; `latest`, paths and run files are not taken"),
        (["20260101T000000Z-small-0123abcd"], 404, ""),
        (["../runs"], 422, ""),
        (["20260101T000000Z-small-0123abcd:../x"], 422, ""),
        ([], 422, ""),
    ],
)
async def test_only_runs_of_the_service_are_compared(runs: list[str], status: int, said: str, tmp_path: Path) -> None:
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        refused = await client.post("/v1/comparisons", json={"runs": runs})
    assert (refused.status_code, said in refused.json()["detail"]) == (status, True)


async def test_runs_are_compared_from_the_runs_folder_even_if_one_here_has_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.trec").write_text("q1 Q0 d1 1 1 x\n")
    shop = write_shop(tmp_path / "shop")
    folder = import_runs(tmp_path / "runs", {"a": tmp_path / "a.trec"}, shop, split="test", name=None, depth=None)
    (tmp_path / folder.path.name).mkdir()
    monkeypatch.chdir(tmp_path)
    async with evaluator(GatewayStub(), tmp_path / "runs") as client:
        refused = await client.post("/v1/comparisons", json={"runs": [folder.path.name]})
    assert "a alone: name something to compare it with" in refused.json()["detail"]
