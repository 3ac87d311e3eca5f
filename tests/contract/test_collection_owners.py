"""Who may begin, fill and publish generations of a collection that another key began: its owner, and admins."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.keys import TOKEN, Keys, bearing, made_keys
from tests.support.real_stack import RealStack, numbered, real_stack


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    made = made_keys(tmp_path)
    made.add("loader", "search", "index")
    made.add("other", "search", "index")
    made.add("operator", "search", "admin", "index")
    return made


@asynccontextmanager
async def opened(directory: Path, keys: Keys | None) -> AsyncIterator[RealStack]:
    """A stack whose callers need a key; with keys of None they need none."""
    plain = ["lexical", "dense"]  # in this process
    settings: dict[str, Any] = (
        {} if keys is None else {"keys_file": keys.file, "STACK_TOKEN": TOKEN, "trusted_plain": plain}
    )
    async with real_stack(directory, **settings) as stack:
        yield stack


def call_as(stack: RealStack, secret: str) -> None:
    stack.client.headers.update(bearing(secret))


@pytest.fixture
async def stack(tmp_path: Path, keys: Keys) -> AsyncIterator[RealStack]:
    """A stack with a live collection of the key `loader`."""
    async with opened(tmp_path, keys) as stack:
        call_as(stack, keys.secrets["loader"])
        await stack.load()
        yield stack


async def test_a_new_generation_of_another_keys_collection_is_refused_with_what_to_do(
    stack: RealStack, keys: Keys
) -> None:
    call_as(stack, keys.secrets["other"])
    for body in ({"new_generation": True}, {"presets": ["anserini-flat"]}, {"build": "mine"}):
        refused = await stack.begin(**body)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:problem:forbidden")
        assert "belongs to another key" in refused.json()["detail"]
        assert f'"owner": "{keys.id_of("other")}"' in refused.json()["detail"]
    assert (await stack.client.get("/v1/collections/c")).json()["building"] is None


async def test_the_owner_begins_the_next_generation_after_a_restart_and_others_still_do_not(
    tmp_path: Path, keys: Keys
) -> None:
    async with opened(tmp_path, keys) as before:
        call_as(before, keys.secrets["loader"])
        await before.load()
    async with opened(tmp_path, keys) as after:
        call_as(after, keys.secrets["other"])
        assert (await after.begin(new_generation=True)).status_code == 403
        call_as(after, keys.secrets["loader"])
        assert (await after.begin(new_generation=True)).json()["generation"] == "c@2"


async def test_an_admins_new_generation_leaves_the_collection_to_its_owner(stack: RealStack, keys: Keys) -> None:
    call_as(stack, keys.secrets["operator"])
    assert (await stack.begin(new_generation=True, build="rebuild")).json()["generation"] == "c@2"
    assert {state["owner"] for state in (await stack.states("dense")).values()} == {keys.id_of("loader")}
    call_as(stack, keys.secrets["loader"])
    assert (await stack.begin(new_generation=True)).json()["generation"] == "c@3"


async def test_only_an_admin_gives_a_collection_to_another_key(stack: RealStack, keys: Keys) -> None:
    gift = {"new_generation": True, "owner": keys.id_of("other")}
    refused = await stack.begin(**gift)
    assert (refused.status_code, refused.json()["detail"].split(":")[0]) == (403, "owner")
    call_as(stack, keys.secrets["operator"])
    assert (await stack.begin(**gift)).status_code == 200
    call_as(stack, keys.secrets["other"])
    assert (await stack.begin(new_generation=True)).json()["generation"] == "c@3"
    call_as(stack, keys.secrets["loader"])
    assert (await stack.begin(new_generation=True)).status_code == 403


async def test_an_owner_without_a_new_generation_is_refused(stack: RealStack, keys: Keys) -> None:
    call_as(stack, keys.secrets["operator"])
    refused = await stack.begin(owner=keys.id_of("other"))
    assert (refused.status_code, "send `owner` with `new_generation`" in refused.json()["detail"]) == (409, True)


async def test_a_guessed_build_of_another_key_is_neither_continued_nor_filled_nor_published_nor_discarded(
    stack: RealStack, keys: Keys
) -> None:
    assert (await stack.begin(new_generation=True, build="nightly")).status_code == 200
    assert (await stack.send(numbered(3), build="nightly")).status_code == 200
    call_as(stack, keys.secrets["other"])
    refused = [
        await stack.begin(build="nightly"),
        await stack.send(numbered(1, "foreign"), build="nightly"),
        await stack.post("/documents/delete", ids=["d00"], build="nightly"),
        await stack.post("/publish", build="nightly"),
        await stack.post("/discard", build="nightly"),
    ]
    assert [answer.status_code for answer in refused] == [403] * 5
    call_as(stack, keys.secrets["loader"])
    assert (await stack.post("/publish", build="nightly")).json()["documents"] == 3


async def test_documents_of_the_live_generation_need_the_scope_alone(stack: RealStack, keys: Keys) -> None:
    call_as(stack, keys.secrets["other"])
    assert (await stack.begin()).json()["created"] is False
    assert (await stack.send(numbered(2, "more"))).json()["complete"]


async def test_what_our_own_processes_began_is_no_keys(tmp_path: Path, keys: Keys) -> None:
    async with opened(tmp_path, keys) as stack:
        call_as(stack, TOKEN)
        await stack.load()
        call_as(stack, keys.secrets["loader"])
        assert (await stack.begin(new_generation=True)).status_code == 403
        call_as(stack, TOKEN)
        assert (await stack.begin(new_generation=True)).status_code == 200


async def test_a_collection_begun_without_keys_is_an_admins_to_give(tmp_path: Path, keys: Keys) -> None:
    async with opened(tmp_path, None) as stack:
        await stack.load()
        assert (await stack.begin(new_generation=True)).status_code == 200
    async with opened(tmp_path, keys) as stack:
        call_as(stack, keys.secrets["loader"])
        refused = await stack.begin(new_generation=True)
        assert (refused.status_code, "has no owner that is known" in refused.json()["detail"]) == (403, True)
        call_as(stack, keys.secrets["operator"])
        assert (await stack.begin(new_generation=True, owner=keys.id_of("loader"))).status_code == 200
        call_as(stack, keys.secrets["loader"])
        assert (await stack.begin(new_generation=True)).status_code == 200
