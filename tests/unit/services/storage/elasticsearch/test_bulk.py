"""Checks which items of a bulk request are retried."""

from collections.abc import Sequence

from services.chassis.deadlines import Deadline
from services.storage.elasticsearch.answers import BulkItem, Cause
from services.storage.elasticsearch.bulk import ATTEMPTS, Operation, bulk
from tests.support.virtual_time import in_virtual_time

OPERATIONS = [Operation(one, ({"index": {"_id": one}},)) for one in "abc"]
DONE = BulkItem(status=201)
FULL = BulkItem(status=429, error=Cause(type="es_rejected_execution_exception", reason="queue is full"))
BROKEN = BulkItem(status=400, error=Cause(type="document_parsing_exception", reason="no"))


class Scripted:
    """Answers each document from its own script, then repeats the last answer."""

    def __init__(self, **scripts: Sequence[BulkItem]) -> None:
        self.scripts = {one: list(script) for one, script in scripts.items()}
        self.sent: list[str] = []

    async def __call__(self, operations: Sequence[Operation]) -> Sequence[BulkItem]:
        self.sent.append("".join(operation.id for operation in operations))
        scripts = [self.scripts[operation.id] for operation in operations]
        return [script.pop(0) if len(script) > 1 else script[0] for script in scripts]


def test_only_rejected_items_are_retried() -> None:
    send = Scripted(a=[DONE], b=[FULL, FULL, DONE], c=[BROKEN])
    results = in_virtual_time(bulk(OPERATIONS, send, Deadline.after_ms(60_000)))
    assert results == [DONE, DONE, BROKEN]
    assert send.sent == ["abc", "b", "b"]


def test_retries_end_after_some_attempts() -> None:
    send = Scripted(a=[DONE], b=[FULL], c=[DONE])
    assert in_virtual_time(bulk(OPERATIONS, send, Deadline.after_ms(60_000)))[1] == FULL
    assert len(send.sent) == ATTEMPTS


async def test_retries_end_with_the_deadline() -> None:
    send = Scripted(a=[FULL], b=[DONE], c=[FULL])
    assert await bulk(OPERATIONS, send, Deadline.after_ms(0)) == [FULL, DONE, FULL]
    assert send.sent == ["abc"]
