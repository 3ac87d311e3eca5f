"""Who may send events, and a journal's folder that cannot be written."""

from pathlib import Path

import pytest

from gateway.app import build_app
from gateway.settings import GatewaySettings
from services.chassis.settings.configuration import ConfigurationError
from tests.support.keys import bearing, made_keys
from tests.support.opened_client import opened_client

EVENT = {"query_id": "q1", "client_id": "user-1", "action_name": "click", "event_id": "e1"}


@pytest.mark.parametrize("path", ["file/journal", "file"])
def test_a_folder_that_cannot_be_written_stops_the_start(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="GATEWAY_JOURNAL"):
        build_app(GatewaySettings(journal=tmp_path / path))


async def test_a_key_for_events_may_do_nothing_else(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    settings = GatewaySettings(auth="on", keys_file=keys.file, journal=tmp_path / "journal")
    async with opened_client(build_app(settings)) as http:
        app = bearing(keys.secrets["events"])
        assert (await http.post("/v1/events", json={"events": [EVENT]}, headers=app)).status_code == 204
        for method, path in (
            ("POST", "/v1/collections/demo/search"),
            ("GET", "/v1/collections"),
            ("PUT", "/v1/collections/demo"),
            ("POST", "/v1/pipelines/reload"),
        ):
            assert (await http.request(method, path, headers=app)).status_code == 403
