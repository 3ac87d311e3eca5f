"""Kills a gateway with SIGKILL while events arrive; checks that its journal has each acknowledged one, once by id."""

import asyncio
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from pydantic import ValidationError

from services.contracts.online import Event
from tests.soak.outcome import Bar, Outcome
from tests.support.processes import Process, started

SENDERS = 4
MOST_OF_A_BATCH = 40
CHECK_AFTER = 10  # kills
SAYS = (
    f"{SENDERS} apps send events to `POST /v1/events`, up to {MOST_OF_A_BATCH} at once; a batch is repeated until it "
    "is acknowledged. Meanwhile the gateway is killed at random moments, some of them during its start, and started "
    "again. Then the lines of its journal are compared with what was acknowledged."
)


@dataclass
class Sender:
    """Sends events of its own to a gateway until `done`. `sent`: values by event id, all acknowledged at the end.

    `again`: batches that were sent more than once.
    """

    name: str
    gateway: Process
    rng: random.Random
    done: asyncio.Event
    sent: dict[str, float] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    again: int = 0

    async def work(self) -> None:
        async with self.gateway.client(timeout_s=5.0) as client:
            while not self.done.is_set():
                first, count = len(self.sent), self.rng.randint(1, MOST_OF_A_BATCH)
                batch = {f"{self.name}-{first + at}": self.rng.randint(1, 9) / 4 for at in range(count)}
                self.sent |= batch
                common = {"query_id": "q", "client_id": self.name, "action_name": "order"}
                events = [{**common, "event_id": identity, "value": value} for identity, value in batch.items()]
                for attempt in range(10_000):
                    self.again += attempt == 1
                    if await self._acknowledged(client, {"events": events}):
                        break
                    await asyncio.sleep(0.02)
                self.acknowledged |= batch.keys()

    async def _acknowledged(self, client: httpx.AsyncClient, body: object) -> bool:
        try:
            answer = await client.post("/v1/events", json=body)
        except httpx.TransportError:
            return False
        assert answer.status_code in (204, 429, 503), answer.text
        return answer.status_code == 204


@dataclass(frozen=True)
class Read:
    """What a journal has: values and numbers of lines by event id; torn lines at the end of a file or within."""

    values: dict[str, float]
    lines: Counter[str]
    torn: int
    torn_within: int


def read(journal: Path) -> Read:
    """Reads every file of events as a reader would."""
    values: dict[str, float] = {}
    lines: Counter[str] = Counter()
    torn = within = 0
    for file in sorted(journal.glob("ubi_events-*.jsonl")):
        whole, _, rest = file.read_bytes().rpartition(b"\n")
        torn += bool(rest)
        for line in whole.splitlines():
            try:
                event = Event.model_validate_json(line)
            except ValidationError:
                within += 1
                continue
            lines[event.event_attributes.event_id] += 1
            values[event.event_attributes.event_id] = event.event_attributes.value or 0.0
    return Read(values, lines, torn, within)


async def run(seed: int, size: int = 50) -> Outcome:
    """Kills the gateway `size` times."""
    rng, done = random.Random(seed), asyncio.Event()
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        directory = Path(name)
        async with started(directory, families=("lexical",)) as processes:
            gateway, log = processes["gateway"], directory / "gateway.log"
            gateway.kill()
            gateway.environment["GATEWAY_JOURNAL"] = f"{directory}/journal"
            gateway.start(log)
            await gateway.ready()
            senders = [Sender(f"app{at}", gateway, random.Random(rng.random()), done) for at in range(SENDERS)]
            async with asyncio.TaskGroup() as tasks:
                for sender in senders:
                    tasks.create_task(sender.work())
                for killed in range(1, size + 1):
                    await asyncio.sleep(rng.uniform(0.0, 1.0))
                    gateway.kill()
                    gateway.start(log)
                    if rng.random() < 0.8:  # else the next kill meets it while it starts
                        await gateway.ready()
                    if killed % CHECK_AFTER == 0 or killed == size:
                        rows.append(_row(killed, senders, directory / "journal"))
                await gateway.ready()
                done.set()
            return _outcome(seed, rows, senders, read(directory / "journal"))


def _row(killed: int, senders: list[Sender], journal: Path) -> tuple[str, ...]:
    acknowledged = set().union(*(sender.acknowledged for sender in senders))
    kept = read(journal)
    lost = acknowledged - kept.values.keys()
    repeated = kept.lines.total() - len(kept.lines)
    return tuple(map(str, (killed, len(acknowledged), len(lost), repeated, kept.torn)))


def _outcome(seed: int, rows: list[tuple[str, ...]], senders: list[Sender], kept: Read) -> Outcome:
    sent = {identity: value for sender in senders for identity, value in sender.sent.items()}
    lost = sorted(set().union(*(sender.acknowledged for sender in senders)) - kept.values.keys())
    wrong = sorted(identity for identity, value in kept.values.items() if sent.get(identity) != value)
    early = sum(int(row[2]) for row in rows)
    again = sum(sender.again for sender in senders)
    repeated = kept.lines.total() - len(kept.lines)
    total, counted = sum(sent.values()), sum(kept.values.values())
    return Outcome(
        name="events",
        says=f"{SAYS}\n\n{again} batches were repeated, which left {repeated} lines of events already there.",
        seed=seed,
        columns=("kills so far", "events acknowledged", "lost", "lines of an event already there", "torn last lines"),
        rows=tuple(rows),
        bars=(
            Bar(
                "every acknowledged event is in the journal", f"{len(lost)} lost of {len(sent)}", not lost and not early
            ),
            Bar(
                "by its `event_id` each counts once, with its value",
                f"a sum of {counted:g} of {total:g} sent, {len(wrong)} wrong",
                counted == total and not wrong,
            ),
            Bar("only the last line of a file is ever torn", f"{kept.torn_within} others", not kept.torn_within),
        ),
        broken=tuple(f"lost {identity}" for identity in lost) + tuple(f"wrong {identity}" for identity in wrong),
    )
