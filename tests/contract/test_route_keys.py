from gateway.app import build_app
from gateway.settings import GatewaySettings
from services.contracts.version import VERSION, VERSION_HEADER
from tests.support.keys import Keys, bearing
from tests.support.opened_client import opened_client
from tests.support.route_keys import PAGE, measured_page


async def test_every_route_refuses_who_has_no_right_key_as_the_page_says() -> None:
    """`.venv/bin/python -m tests.support.route_keys` writes the page anew."""
    assert await measured_page() == PAGE.read_text(encoding="utf-8")


def test_the_page_serves_nobody_without_a_key_but_on_open_routes() -> None:
    rows = [
        line.strip("| ").split(" | ")
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    assert len(rows) > 60
    for _, scope, *answers in rows:
        refused = answers[:5]
        assert answers[5] == "served"
        if scope == "open":
            assert set(refused) == {"served"}
        else:
            assert "served" not in refused


def test_a_key_that_lacks_the_scope_is_told_so_by_all_who_know_it() -> None:
    _, *parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    for part in parts:
        rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| `")]
        said = {wrong_scope for _, scope, *_, wrong_scope, _ in rows if scope != "open"}
        assert said == {"401" if part.startswith("Lexical") else "403"}


async def test_who_has_no_key_is_told_no_version(keys: Keys) -> None:
    async with opened_client(build_app(GatewaySettings(auth="on", keys_file=keys.file))) as http:
        known = await http.get("/nothing", headers=bearing(keys.secrets["search"]))
        stranger = await http.get("/nothing")
    assert (known.status_code, known.headers.get(VERSION_HEADER)) == (404, VERSION)
    assert (stranger.status_code, stranger.headers.get(VERSION_HEADER)) == (401, None)
