"""A run whose folder is removed while it runs ends with one sentence that names the folder, and no page is a 500."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from tests.contract.test_evaluator_cli import evaluator
from tests.support.evaluator_service import ended
from tests.support.evaluator_service import evaluator as service
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.small_runs import Evaluator

__all__ = ["evaluator"]  # fixtures
PAGES = ("/", "/runs/{}", "/attribution/{}", "/replay/{}", "/v1/experiments", "/v1/experiments/{}", "/compare?runs={}")


async def searching(stub: GatewayStub) -> None:
    """Returns once a query was sent."""
    for _ in range(3_000):
        if len(stub.searches) > 1:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no search was sent")


@pytest.mark.integration  # takes seconds
@pytest.mark.parametrize("made_anew", [False, True])
async def test_an_experiment_of_the_service_fails_by_the_name_of_its_folder(tmp_path: Path, made_anew: bool) -> None:
    stub = GatewayStub(search_delay_s=0.03)
    body = {"name": "small", "dataset": str(write_shop(tmp_path / "shop")), "pipelines": ["bm25"]}
    async with service(stub, tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        await searching(stub)
        shutil.rmtree(tmp_path / "runs" / run)
        if made_anew:
            (tmp_path / "runs" / run).mkdir()
        state, stub.search_delay_s = await ended(client, run), 0.0
        statuses = [(await client.get(page.format(run))).status_code for page in PAGES]
        again = await client.post("/v1/experiments", json=body)
        assert (await ended(client, again.json()["id"]))["state"] == "done"
    assert (state["state"], state["step"]) == ("failed", "rank")
    assert f"{run}: the folder of this run was removed" in state["detail"]
    assert max(statuses) < 500


def test_a_command_ends_with_a_sentence_that_names_the_folder(
    evaluator: Evaluator, stub: GatewayStub, tmp_path: Path
) -> None:
    stub.search_delay_s = 0.05

    def remove() -> None:
        asyncio.run(searching(stub))
        (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir() and not path.is_symlink())
        while folder.exists():  # a file that is being renamed makes a single call fail
            shutil.rmtree(folder, ignore_errors=True)

    remover = threading.Thread(target=remove)
    remover.start()
    done = evaluator("demo")
    remover.join()
    assert done.exit_code == 1
    assert "the folder of this run was removed; begin a new run" in done.stderr.splitlines()[-1]


async def test_a_full_disk_fails_an_experiment_by_the_name_of_the_file(tmp_path: Path) -> None:
    body = {"name": "small", "dataset": str(write_shop(tmp_path / "shop")), "pipelines": ["bm25"]}
    async with service(GatewayStub(load_delay_s=0.3), tmp_path / "runs") as client:
        run = (await client.post("/v1/experiments", json=body)).json()["id"]
        (tmp_path / "runs" / run / "costs.json").symlink_to("/dev/full")
        state = await ended(client, run)
    assert state["state"] == "failed"
    assert "costs.json: No space left on device" in state["detail"]
