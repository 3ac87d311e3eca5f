"""Indexes documents that come as lines of JSON, and reports on them, both while they come.

A body of any length takes little memory: a few batches are in flight, and nothing is read while all of them are.
"""

import asyncio
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.chassis.deadlines import Deadline, current_deadline, set_deadline
from services.chassis.errors import BadInput, BodyTooLarge, ClientGone, Overloaded, ProblemError, RequestTimeout
from services.chassis.requests.handling import NDJSON
from services.chassis.requests.json_shape import parse_json
from services.contracts.base import Wire
from services.contracts.documents import FanOutReport, LineProblem, LinesStored, LinesTotal, SentDocument
from services.contracts.validation_messages import validation_message

# Bodies at once, and batches of each in flight.
MOST_STREAMS, IN_FLIGHT = 4, 4
# Bounds of a batch: lines, bytes and commas. A line of more is a batch of its own. A service takes 100,000 values in a
# body, and each but the first of a list or an object follows a comma.
MOST_LINES, MOST_BYTES, MOST_COMMAS = 256, 1_000_000, 90_000
MOST_LINE_BYTES = 7_500_000
# Seconds without a byte after which a body ends.
IDLE_S = 30.0
# Seconds until a batch that was not stored is sent again; they double. Statuses of problems that may pass.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 8.0
PASSING = (429, 502, 503, 504)

Index = Callable[[Sequence[SentDocument]], Awaitable[FanOutReport]]
Found = SentDocument | LineProblem  # in a line


class LinesAnswer(Response):
    """Reads a body of lines. Answers with a line for each problem and for each batch, and at the end with the totals.

    Each batch has the time that the request has.
    """

    def __init__(self, index: Index, streams: asyncio.Semaphore) -> None:
        """Raises Overloaded where as many bodies are read as may be."""
        super().__init__(media_type=NDJSON)
        if streams.locked():
            raise Overloaded(f"{MOST_STREAMS} bodies of lines are being read already; send this when one has ended.")
        self._index = index
        self._streams = streams
        self._batch_s = current_deadline().remaining_s
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._telling = asyncio.Lock()
        self._begun = False
        self._open: set[str] = set()  # ids of the batches that are not stored yet
        self._total: Counter[str] = Counter(stored=0, not_stored=0, stripped_characters=0)
        self._undeclared: dict[str, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends when everything is answered, or when the caller has gone."""
        async with self._streams:
            try:
                async with asyncio.TaskGroup() as batches:
                    problem = await self._read(receive, send, batches)
            except* ClientGone as gone:
                if not self._begun:
                    raise gone.exceptions[0] from None
            else:
                total = LinesTotal(**self._total, undeclared_metadata=tuple(sorted(self._undeclared)), problem=problem)
                await self._tell([total], send, more=False)

    async def _read(self, receive: Receive, send: Send, batches: asyncio.TaskGroup) -> str | None:
        """Sends all lines on in batches. Returns what has ended the body before its end."""
        batch: dict[int, Found] = {}
        size = commas = 0
        problem = None

        async def flush() -> None:
            nonlocal batch, size, commas
            if batch:
                await self._slots.acquire()
                batches.create_task(self._store(batch, send))
            batch, size, commas = {}, 0, 0

        try:
            async for number, line in lines_of(receive):
                more = line.count(b",")
                if len(batch) == MOST_LINES or size + len(line) > MOST_BYTES or commas + more > MOST_COMMAS:
                    await flush()
                found = _read_line(number, line)
                if isinstance(found, SentDocument):
                    if found.id in self._open:  # stored in order, so that the last line of an id wins
                        await flush()
                        await self._settled()
                    self._open.add(found.id)
                batch[number] = found
                size, commas = size + len(line), commas + more
        except RequestTimeout as timeout:
            problem = timeout.detail
        await flush()
        return problem

    async def _settled(self) -> None:
        for _ in range(IN_FLIGHT):
            await self._slots.acquire()
        for _ in range(IN_FLIGHT):
            self._slots.release()

    async def _store(self, batch: Mapping[int, Found], send: Send) -> None:
        set_deadline(Deadline.after_ms(self._batch_s * 1_000))
        documents = {one.id: one for one in batch.values() if isinstance(one, SentDocument)}
        failed = await self._index_patiently(documents)
        problems = [
            LineProblem(line=number, id=one.id, problem=failed[one.id]) if isinstance(one, SentDocument) else one
            for number, one in batch.items()
            if isinstance(one, LineProblem) or one.id in failed
        ]
        stored = len(batch) - len(problems)
        stripped = sum(document.stripped for document in documents.values())
        self._total.update(stored=stored, not_stored=len(problems), stripped_characters=stripped)
        self._open.difference_update(documents)
        await self._tell([*problems, LinesStored(lines=(min(batch), max(batch)), stored=stored)], send)
        self._slots.release()

    async def _index_patiently(self, documents: Mapping[str, SentDocument]) -> dict[str, str]:
        """Indexes documents, again while services are busy or away and time is left. Returns why some are not stored,
        by id."""
        refused: dict[str, str] = {}
        waiting, pause_s = tuple(documents.values()), FIRST_PAUSE_S
        while waiting:
            final, passing = await self._attempt(waiting)
            refused |= final
            if passing and current_deadline().remaining_s <= 2 * pause_s:
                return refused | passing
            waiting = tuple(documents[identity] for identity in passing)
            await asyncio.sleep(pause_s if waiting else 0.0)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return refused

    async def _attempt(self, documents: Sequence[SentDocument]) -> tuple[dict[str, str], dict[str, str]]:
        """Returns why documents are not stored, by id: those that are refused, and those to be sent again."""
        final: dict[str, str] = {}
        passing: dict[str, str] = {}
        ids = [document.id for document in documents]
        try:
            report = await self._index(documents)
        except (BadInput, BodyTooLarge) as problem:
            if len(documents) == 1:
                return {ids[0]: problem.detail}, passing
            for part in (documents[: len(ids) // 2], documents[len(ids) // 2 :]):  # finds those at fault
                one, other = await self._attempt(part)
                final, passing = final | one, passing | other
        except ProblemError as problem:
            told = dict.fromkeys(ids, problem.detail)
            return (final, told) if problem.status in PASSING else (told, passing)
        else:
            self._undeclared |= dict.fromkeys(report.undeclared_metadata[: max(0, 32 - len(self._undeclared))])
            for outcome in report.services:
                if outcome.status == "failed":
                    passing |= dict.fromkeys(ids, f"{outcome.backend}: {outcome.reason}")
                for error in () if outcome.report is None else outcome.report.errors:
                    (passing if error.retryable else final)[error.id] = f"{outcome.backend}: {error.reason}"
        return final, {identity: why for identity, why in passing.items() if identity not in final}

    async def _tell(self, lines: Sequence[Wire], send: Send, *, more: bool = True) -> None:
        """Sends lines of the answer. While the caller does not read them, batches do not end and none begins."""
        async with self._telling:
            if not self._begun:
                self._begun = True
                head = [(b"content-type", NDJSON.encode())]
                await send({"type": "http.response.start", "status": self.status_code, "headers": head})
            body = b"".join(line.model_dump_json().encode() + b"\n" for line in lines)
            await send({"type": "http.response.body", "body": body, "more_body": more})


async def lines_of(receive: Receive) -> AsyncIterator[tuple[int, bytes]]:
    """Yields the lines of a body that are not blank, with their numbers; of a line above MOST_LINE_BYTES a longer part.

    Raises ClientGone where the caller has left, RequestTimeout where nothing comes for IDLE_S.
    """
    rest, number, more, cut = b"", 0, True, False
    while more:
        try:
            async with asyncio.timeout(IDLE_S):
                message = await receive()
        except TimeoutError as error:
            raise RequestTimeout(f"Nothing came for {IDLE_S:g} s; send what follows the last line anew.") from error
        if message["type"] == "http.disconnect":
            raise ClientGone("The caller hung up while sending.")
        more = message.get("more_body", False)
        *whole, rest = (rest + message.get("body", b"")).split(b"\n")
        if not more:
            whole, rest = [*whole, rest], b""
        for line in whole:
            number += not cut
            if number == 1:
                line = line.removeprefix(BOM_UTF8)
            if not cut and line.strip():
                yield number, line
            cut = False
        if cut or len(rest) > MOST_LINE_BYTES:
            if not cut:
                number += 1
                yield number, rest
            rest, cut = b"", True


def _read_line(number: int, line: bytes) -> Found:
    if len(line) > MOST_LINE_BYTES:
        return LineProblem(line=number, problem=f"A line may have at most {MOST_LINE_BYTES} bytes.")
    try:
        return SentDocument.model_validate(parse_json(line))
    except ProblemError as problem:
        return LineProblem(line=number, problem=problem.detail)
    except ValidationError as error:
        fault = error.errors()[0]
        place = "".join(f"{part}." for part in fault["loc"]).removesuffix(".")
        return LineProblem(line=number, problem=f"{place or 'document'}: {validation_message(fault, SentDocument)}")
