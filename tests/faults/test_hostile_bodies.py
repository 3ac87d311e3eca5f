"""Hostile bodies of up to 8 MB at a real gateway: it answers, other requests do not wait, and memory does not grow."""

import asyncio
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import secured
from tests.support.processes import Process
from tests.support.watched import watched

MOST = 7_900_000
# The bar is 0.25 s on an idle machine; this one may be shared, and tests run concurrently.
SOON_S = 0.5
MOST_KEPT_MIB = 20


def repeated(unit: bytes, size: int = MOST) -> bytes:
    return unit * (size // len(unit))


def batch(document: bytes) -> bytes:
    return b'{"documents": [{"id": "a", "title": "", ' + document + b"}]}"


def searched(query: bytes, more: bytes = b"") -> bytes:
    return b'{"query": ' + query + more + b"}"


def fuses(depth: int) -> object:
    leaf = {"kind": "retrieve", "backend": "lexical", "id": "a"}
    return {"kind": "fuse", "inputs": [fuses(depth - 1)] * 8} if depth else leaf


STAGES = json.dumps({"name": "x", "stages": [{"kind": "cut", "top": 1, "id": "a"}] * 24_000}).encode()
TREE = json.dumps({"name": "x", "stages": [fuses(5)]}).encode()
DOCUMENTS = {
    "empty lists": batch(b'"metadata": {"a": [' + repeated(b"[],") + b"[]]}"),
    "lists up to the bound": batch(b'"metadata": {"a": [' + b"[]," * 99_000 + b"[]]}"),
    "objects up to the bound": batch(b'"metadata": {"a": [' + b'{"a":1},' * 49_000 + b"1]}"),
    "documents with many wrong fields": json.dumps(
        {"documents": [{"id": str(i), "text": "", "metadata": {f"k{j}": {} for j in range(190)}} for i in range(256)]}
    ).encode(),
    "wrong documents": b'{"documents": [' + b"1," * 99_000 + b"1]}",
    "empty texts": batch(b'"metadata": {"a": [' + repeated(b'"",') + b'""]}'),
    "opening brackets": b"[" * MOST,
    "700 levels": batch(b'"metadata": ' + b'{"a":' * 700 + b"1" + b"}" * 700),
    "commas in a text": batch(b'"text": "' + b"," * MOST + b'"'),
    "brackets in a text": batch(b'"text": "' + repeated(b"[{") + b'"'),
    "escapes in a text": batch(b'"text": "' + repeated(b"\\u0001\\n\\\\") + b'"'),
    "surrogates in a text": batch(b'"text": "' + repeated(b"\\ud800") + b'"'),
    "combining marks in a text": batch(b'"text": "' + repeated("\u0301\u0316".encode(), 400_000) + b'"'),
    "long numbers": batch(b'"metadata": {"a": [' + repeated(b"9" * 4_000 + b",") + b"1]}"),
    "one long number": batch(b'"metadata": {"a": 0.' + b"7" * MOST + b"}"),
    "space": b" " * MOST,
    "no JSON": random.Random(1).randbytes(MOST),
    "all that a batch can hold": json.dumps(
        {"documents": [{"id": str(i), "text": "a word " * 4_300} for i in range(256)]}
    ).encode(),
}
SEARCHES = {
    "24,000 stages": searched(b'"a"', b', "pipeline": ' + STAGES),
    "32,768 stages five deep": searched(b'"a"', b', "pipeline": ' + TREE),
    "a long query": searched(b'"' + b"a " * 8_192 + b'"'),
    "a query beyond the bound": searched(b'"' + b"a" * MOST + b'"'),
    "combining marks": searched(b'"' + repeated("\u0301\u0316".encode(), 32_000) + b'"'),
    "filters": searched(b'"a"', b', "filter": {"all": [' + b'{"field":1},' * 40_000 + b"1]}"),
    "unknown fields": searched(b'"a"', b"".join(b', "k%d": 1' % place for place in range(99_000))),
}


@contextmanager
def started(log: Path) -> Iterator[Process]:
    process = Process("gateway", {})
    try:
        process.start(log)
        asyncio.run(alive(process))
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with started(tmp_path_factory.mktemp("process") / "log") as process:
        yield process


async def alive(process: Process) -> None:
    """A gateway that never gets ready, because it has no backend. The tests need none."""
    for _ in range(1_200):
        try:
            asked(process, "GET", "/livez", b"")
        except OSError:
            await asyncio.sleep(0.05)
        else:
            return
    raise AssertionError("the gateway did not start")


def asked(process: Process, method: str, path: str, body: bytes) -> tuple[int, dict[str, object]]:
    connection = secured.http_connection(process.port, timeout_s=60)
    try:
        headers = {"Content-Type": "application/json", **secured.headers(process.port)}
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


CASES = [("documents", name) for name in DOCUMENTS] + [("search", name) for name in SEARCHES]


@pytest.mark.parametrize(("action", "name"), CASES, ids=[name for _, name in CASES])
def test_a_hostile_body_is_answered_and_delays_no_other_request(process: Process, action: str, name: str) -> None:
    body = (DOCUMENTS if action == "documents" else SEARCHES)[name]
    assert len(body) <= 8_000_000
    with watched(process) as seen:
        status, problem = asked(process, "POST", f"/v1/collections/c/{action}", body)
    # 503: a valid body, but no backend to take it.
    assert status in (400, 404, 422, 503), problem
    assert problem["detail"]
    assert seen.slowest_s < SOON_S
    assert seen.grown_mib < 200


@pytest.mark.integration  # takes seconds
@pytest.mark.alone
def test_memory_of_large_bodies_is_returned_to_the_system(tmp_path: Path) -> None:
    with started(tmp_path / "log") as fresh:
        for action, name in CASES[:2]:  # what any first requests fill for good: caches, pools, stacks of threads
            asked(fresh, "POST", f"/v1/collections/c/{action}", (DOCUMENTS | SEARCHES)[name])
        time.sleep(2.0)
        with watched(fresh) as seen:
            for action, name in CASES:
                asked(fresh, "POST", f"/v1/collections/c/{action}", (DOCUMENTS | SEARCHES)[name])
            ends_at = time.monotonic() + 10.0
            while seen.kept_mib > MOST_KEPT_MIB and time.monotonic() < ends_at:
                time.sleep(0.1)
            assert seen.kept_mib < MOST_KEPT_MIB
