"""What the audit of the evaluator's service says about runs."""

import logging
from pathlib import Path

import httpx
import pytest

from evaluator.service.app import build_app
from evaluator.settings import EvaluatorSettings
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.keys import TOKEN, bearing, made_keys
from tests.support.opened_client import opened_client

RUN = "20260101T000000Z-none-01234567"


async def test_a_line_names_the_run_that_was_begun_or_cancelled_and_the_session_that_was_judged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys, gateway = made_keys(tmp_path), GatewayStub().app
    settings = EvaluatorSettings.model_validate(
        {
            "runs": tmp_path / "runs",
            "datasets": (tmp_path,),
            "gateway_url": "http://gateway",
            "keys_file": keys.file,
            "STACK_TOKEN": TOKEN,
            "trusted_plain": ["gateway"],
        }
    )
    app = build_app(settings, httpx.ASGITransport(gateway))
    async with (
        gateway.router.lifespan_context(gateway),
        opened_client(app, headers=bearing(keys.secrets["admin"])) as client,
    ):
        with caplog.at_level(logging.INFO, logger="audit"):
            experiment = {"name": "audited", "dataset": str(write_shop(tmp_path / "shop")), "pipelines": ["bm25"]}
            begun = await client.post("/v1/experiments", json=experiment)
            assert begun.status_code == 202, begun.text
            await client.delete(f"/v1/experiments/{begun.json()['id']}")
            await client.delete(f"/v1/experiments/{RUN}")
            await client.delete("/v1/experiments/Not%20a%20run")
            await client.post("/judge/spring/pair", data={})
    told = [vars(record) for record in caplog.records if record.name == "audit"]
    assert [one["run"] for one in told] == [begun.json()["id"], begun.json()["id"], RUN, None, None]
    assert [one["session"] for one in told] == [None, None, None, None, "spring"]
    assert {one["route"] for one in told} == {"/v1/experiments", "/v1/experiments/{run:path}", "/judge/{session}/pair"}
