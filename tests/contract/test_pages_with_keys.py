"""The pages of both services where callers need a key."""

from pathlib import Path

import pytest

from tests.support.keyed_app import connected
from tests.support.keys import bearing, made_keys, typed
from tests.support.route_keys import service_app


@pytest.mark.parametrize("name", ["gateway", "evaluator"])
async def test_a_browser_is_asked_for_a_key_and_opens_pages_with_it(name: str, tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    async with connected(service_app(name, tmp_path, keys)) as http:
        refused = await http.get("/")
        assert (refused.status_code, refused.headers["www-authenticate"].partition(" ")[0]) == (401, "Basic")
        assert "give any user name, and a key as the password" in refused.text
        assert (await http.get("/", headers=typed(keys.secrets["search"]))).status_code == 200


async def test_a_form_of_another_site_is_refused_whoever_is_signed_in(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    async with connected(service_app("evaluator", tmp_path, keys)) as http:
        for carried in (typed(keys.secrets["all"]), bearing(keys.secrets["all"])):
            foreign = await http.post("/new", data={"of": "a"}, headers=carried | {"origin": "http://evil.example"})
            own = await http.post("/new", data={"of": "a"}, headers=carried | {"origin": "http://small"})
            assert (foreign.status_code, "Form of another site" in foreign.text) == (403, True)
            assert own.status_code == 422
