"""Documents that come as lines of JSON: stored and reported on while they come, over real services and sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import Message

from gateway.collections import document_lines
from gateway.collections.document_lines import IN_FLIGHT, MOST_LINES, lines_of
from services.chassis.errors import ClientGone
from tests.support.backends import opened_stack
from tests.support.real_stack import RealStack, numbered, real_stack
from tests.support.served import on_a_port

NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    """A build `b` without documents."""
    async with real_stack(tmp_path) as stack:
        assert (await stack.begin(build="b")).status_code == 200
        yield stack


def lines(documents: Sequence[object]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in documents)


async def sent(
    client: httpx.AsyncClient, body: bytes | AsyncIterator[bytes], path: str = "c/documents?build=b", **headers: str
) -> tuple[int, list[Any]]:
    answer = await client.post(f"/v1/collections/{path}", content=body, headers=NDJSON | headers)
    return answer.status_code, [json.loads(line) for line in answer.text.splitlines()]


async def test_documents_of_many_batches_are_stored_and_counted(stack: RealStack) -> None:
    status, answer = await sent(stack.client, lines(numbered(1_000)))
    ranges = sorted(one["lines"] for one in answer[:-1])
    assert (status, ranges[0][0], ranges[-1][1], sum(one["stored"] for one in answer[:-1])) == (200, 1, 1_000, 1_000)
    assert [after[0] - before[1] for before, after in pairwise(ranges)] == [1] * (len(ranges) - 1)
    assert answer[-1] == {
        "stored": 1_000,
        "not_stored": 0,
        "stripped_characters": 0,
        "undeclared_metadata": [],
        "problem": None,
    }
    assert (await stack.post("/publish", build="b", expected_documents=1_000)).status_code == 200


async def test_a_line_that_is_no_document_is_reported_and_the_others_are_stored(stack: RealStack) -> None:
    wrong = [b"{", b'{"id": "x"}', b"", b'{"id": "y", "text": "y", "txet": 1}', b'{"id": "z", "text": "a\\u0000b"}']
    strange = {"id": "v", "text": "v", "vectors": {"nowhere": {"model": "m", "dense": [1.0]}}}
    body = lines(numbered(2)) + b"\n".join(wrong) + b"\n" + lines([strange]) + b'{"id": "last", "text": "last"}'
    status, answer = await sent(stack.client, body)
    assert status == 200
    problems = {one["line"]: one["problem"] for one in answer if "line" in one}
    assert problems.keys() == {3, 4, 6, 8}
    assert "not valid JSON" in problems[3]
    assert "must have a title or a text" in problems[4]
    assert problems[6].startswith("txet: there is no such field")
    assert "no vectors of 'nowhere'" in problems[8]
    assert answer[-2] == {"lines": [1, 9], "stored": 4}
    assert (answer[-1]["stored"], answer[-1]["not_stored"], answer[-1]["stripped_characters"]) == (4, 4, 1)
    assert await stack.texts(["d00", "z", "last", "x"]) == {"d00": "word 0", "z": "ab", "last": "last"}


async def test_the_last_line_of_an_id_wins(stack: RealStack) -> None:
    documents = [{"id": f"d{number % 7}", "text": f"text {number}"} for number in range(100)]
    _, answer = await sent(stack.client, lines(documents))
    assert answer[-1]["stored"] == 100
    texts = await stack.texts([f"d{number}" for number in range(7)])
    assert sorted(texts.values()) == sorted(f"text {number}" for number in range(93, 100))


async def test_before_anything_is_read_it_is_refused_as_other_writes_are(stack: RealStack) -> None:
    for path, status, kind in (
        ("c/documents", 409, "build-token-needed"),
        ("c/documents?build=other", 409, "build-conflict"),
        ("nowhere/documents", 404, "unknown-collection"),
        ("c/documents/delete", 415, "unsupported-media-type"),
    ):
        answer = await sent(stack.client, lines(numbered(1)), path)
        assert (answer[0], answer[1][0]["type"]) == (status, f"urn:problem:{kind}")


async def test_a_busy_service_gets_the_batch_again_and_a_lost_one_costs_its_lines() -> None:
    async with opened_stack() as stack:
        wire = stack.wires["dense"]
        wire.fault, wire.faults_left = "overloaded", 2
        _, answer = await sent(stack.client, lines(numbered(3)), "demo/documents")
        assert (answer[-1]["stored"], len(stack.dense.generations["demo@1"].documents)) == (3, 8)
        wire.fault, wire.faults_left = "refused", 1_000
        _, answer = await sent(stack.client, lines(numbered(5)), "demo/documents", **{"x-deadline-ms": "2000"})
        assert (answer[-1]["stored"], answer[-1]["not_stored"]) == (0, 5)
        assert [one["line"] for one in answer[:5]] == [1, 2, 3, 4, 5]
        assert "dense" in answer[0]["problem"]


async def test_an_overlong_line_is_dropped_and_costs_no_other(
    stack: RealStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_lines, "MOST_LINE_BYTES", 1_000)

    async def body() -> AsyncIterator[bytes]:
        yield lines(numbered(1)) + b'{"id": "long", "text": "'
        for _ in range(20):
            yield b"x" * 300
        yield b'"}\n' + lines([{"id": "next", "text": "next"}])

    _, answer = await sent(stack.client, body())
    assert answer[0] == {"line": 2, "problem": "A line may have at most 1000 bytes."}
    assert answer[1] == {"lines": [1, 3], "stored": 2}
    assert await stack.texts(["next", "long"]) == {"next": "next"}


async def test_a_body_of_which_nothing_comes_any_more_is_ended_and_what_came_is_stored(
    stack: RealStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document_lines, "IDLE_S", 0.2)

    async def receive() -> dict[str, object]:
        for one in pieces:
            pieces.remove(one)
            return one
        return await asyncio.Future()

    pieces: list[dict[str, object]] = [
        {"type": "http.request", "body": lines(numbered(2)) + b'{"id": "half', "more_body": True}
    ]
    told: list[Any] = []

    async def send(message: Message) -> None:
        told.extend(map(json.loads, message.get("body", b"").splitlines()))

    path = b"/v1/collections/c/documents"
    scope = {
        "type": "http", "method": "POST", "path": path.decode(), "raw_path": path, "query_string": b"build=b",
        "headers": [(b"content-type", b"application/x-ndjson")], "http_version": "1.1", "scheme": "http",
    }  # fmt: skip
    await stack.gateway(scope, receive, send)
    assert told[0] == {"lines": [1, 2], "stored": 2}
    assert "Nothing came for 0.2 s" in told[-1]["problem"]


async def test_it_reports_while_lines_come_and_reads_nothing_while_batches_are_in_flight(stack: RealStack) -> None:
    way = stack.ways["lexical"]
    taken = 0
    async with on_a_port(stack.gateway) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            b"POST /v1/collections/c/documents?build=b HTTP/1.1\r\nhost: 127.0.0.1\r\n"
            b"content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n"
        )

        async def write(piece: bytes) -> None:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()

        await write(lines(numbered(MOST_LINES + 1)))
        async with asyncio.timeout(20):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert json.loads((await reader.readuntil(b"\n\r\n")).split(b"\r\n")[1])["lines"] == [1, MOST_LINES]
        way.hold = (b"/documents", asyncio.Event())
        try:
            async with asyncio.timeout(3):
                while taken < 20 * IN_FLIGHT:
                    text = "word " * 800
                    await write(lines([{"id": f"e{taken}-{number}", "text": text} for number in range(MOST_LINES)]))
                    taken += 1
        except TimeoutError:
            pass
        assert IN_FLIGHT <= taken < 4 * IN_FLIGHT, "a socket holds a few more batches"
        writer.close()
        way.hold[1].set()
        for _ in range(1_000):
            if not any("LinesAnswer" in repr(task.get_coro()) for task in asyncio.all_tasks()):
                break
            await asyncio.sleep(0.02)
        else:
            raise AssertionError("it goes on without its caller")
    assert (await stack.states("lexical"))["c@1"]["documents"] < taken * MOST_LINES


async def test_lines_are_numbered_wherever_their_bytes_are_cut() -> None:
    whole = b'\n{"a": 1}\r\n\n{"b": 2}\n{"c": 3}'
    for cut in range(len(whole)):
        messages = [
            {"type": "http.request", "body": whole[:cut], "more_body": True},
            {"type": "http.request", "body": whole[cut:], "more_body": False},
        ]

        async def receive(messages: list[dict[str, object]] = messages) -> dict[str, object]:
            return messages.pop(0)

        found = [(number, line.strip()) async for number, line in lines_of(receive)]
        assert found == [(2, b'{"a": 1}'), (4, b'{"b": 2}'), (5, b'{"c": 3}')]


async def test_a_caller_that_has_left_ends_it() -> None:
    async def receive() -> dict[str, object]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGone):
        await anext(lines_of(receive))


async def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it(stack: RealStack) -> None:
    status, answer = await sent(stack.client, b"\xef\xbb\xbf" + lines(numbered(2)))
    assert (status, answer[-1]["stored"], answer[-1]["not_stored"]) == (200, 2, 0)


async def test_lines_under_another_media_type_are_told_ours(stack: RealStack) -> None:
    answer = await stack.client.post(
        "/v1/collections/c/documents?build=b",
        content=lines(numbered(2)),
        headers={"content-type": "application/jsonl"},
    )
    assert (answer.status_code, "application/x-ndjson" in answer.json()["detail"]) == (415, True)
