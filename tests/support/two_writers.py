"""Two services over one engine, and a writer at each of them: both write the same ids, versions interleaved."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

import httpx
from fastapi import FastAPI

from services.contracts.content_digest import ContentDigest
from services.contracts.documents import Document
from tests.support.opened_client import opened_client

AT = "/v1/collections/notes@1"
IDS = [f"d{number}" for number in range(60)]
BATCH = 8


async def assert_the_newest_write_of_each_id_stays(apps: Sequence[FastAPI], writes: int, deletions: float) -> None:
    """Sends `writes` documents in batches of a version each, of which a share of `deletions` deletes, then compares
    what each service holds with the newest write of each id."""
    rng = random.Random(23)
    plan = [(version, rng.sample(IDS, BATCH), rng.random() < deletions) for version in range(1, writes // BATCH + 1)]
    newest: dict[str, Document | None] = {}
    for version, ids, deletes in plan:
        newest |= {one: None if deletes else _document(one, version) for one in ids}
    rng.shuffle(plan)
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(opened_client(app)) for app in apps]
        assert (await services[0].put(AT, json={})).status_code == 200
        overtaken = await asyncio.gather(
            *(_write(service, plan[place :: len(services)]) for place, service in enumerate(services))
        )
        expected = ContentDigest()
        expected.add((one, held.content_hash) for one, held in newest.items() if held is not None)
        for service in services:
            assert (await service.post(f"{AT}/finish", json={})).json()["digest"] == expected.hexdigest()
        assert min(overtaken) > writes // 10  # else they hardly met


async def _write(service: httpx.AsyncClient, plan: Sequence[tuple[int, list[str], bool]]) -> int:
    """Sends the batches; returns how many documents were reported as overtaken."""
    late = 0
    for version, ids, deletes in plan:
        documents = [_document(one, version).model_dump() for one in ids]
        path, body = ("documents/delete", {"ids": ids}) if deletes else ("documents", {"documents": documents})
        answer = await service.post(f"{AT}/{path}", params={"version": version}, json=body)
        assert answer.status_code == 200, answer.text
        late += len(answer.json()["errors"])
    return late


def _document(one: str, version: int) -> Document:
    # Of three texts each: what is sent is often there already.
    return Document(id=one, text=f"{one} of {version % 3}")
