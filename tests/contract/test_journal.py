"""The journal keeps what was acknowledged, whole lines only, and counts what it loses."""

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.instruments import GatewayInstruments
from gateway.online import journal as journal_module
from gateway.online.journal import Journal
from services.chassis.errors import Unavailable
from services.contracts.online import Event, Exposure, SentEvent
from tests.support.backends import opened_stack

ROOT = Path(__file__).resolve().parents[2]
CLICK = {"query_id": "q", "client_id": "u", "action_name": "click"}


def events(*names: str) -> tuple[SentEvent, ...]:
    return tuple(SentEvent.model_validate({**CLICK, "event_id": name}) for name in names)


def exposure(query_id: str) -> bytes:
    attributes = {
        "experiment": "e",
        "salt": "s",
        "mode": "split",
        "metric": "click@10",
        "control": "a",
        "shares": {},
        "ms": 1.0,
    }
    seen = {"query_response_hit_ids": ["apple"], "query_attributes": {**attributes, "collection": "demo"}}
    shown = Exposure.model_validate(
        {"query_id": query_id, "client_id": "u", "timestamp": datetime.now(UTC).isoformat(), **seen}
    )
    return shown.model_dump_json().encode() + b"\n"


def lines(directory: Path, kind: str) -> list[bytes]:
    return [line for file in sorted(directory.glob(f"{kind}-*")) for line in file.read_bytes().splitlines()]


def event_ids(directory: Path) -> list[str]:
    kept = map(Event.model_validate_json, lines(directory, "ubi_events"))
    return [event.event_attributes.event_id for event in kept]


def query_ids(directory: Path) -> list[str]:
    return [Exposure.model_validate_json(line).query_id for line in lines(directory, "ubi_queries")]


def files(directory: Path) -> int:
    return len(list(directory.iterdir()))


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Journal]:
    async with aclosing(Journal(directory, GatewayInstruments())) as journal:
        yield journal


async def test_events_are_in_the_file_once_they_are_acknowledged(tmp_path: Path) -> None:
    async with opened_stack(ingested=False, journal=tmp_path) as stack:
        for name in ("one", "two"):
            answer = await stack.client.post("/v1/events", json={"events": [{**CLICK, "event_id": name}]})
            assert (answer.status_code, answer.content) == (204, b"")
            assert event_ids(tmp_path)[-1] == name


async def test_a_full_file_is_followed_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MOST_FILE_BYTES", 200)
    async with opened(tmp_path) as journal:
        for number in range(6):
            await journal.record(events(str(number)))
    assert files(tmp_path) == 3
    assert sorted(event_ids(tmp_path)) == [str(number) for number in range(6)]


async def test_two_journals_of_one_process_never_share_a_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as first, opened(tmp_path) as second:
        await first.record(events("a"))
        await second.record(events("b"))
    assert files(tmp_path) == 2


@pytest.mark.parametrize("busy_s", [0.0, 0.6])
async def test_every_exposure_that_waits_is_written_at_the_close(tmp_path: Path, busy_s: float) -> None:
    async with opened(tmp_path) as journal:
        journal._thread.submit(time.sleep, busy_s)
        for number in range(100):
            journal.expose(exposure(str(number)))
        assert query_ids(tmp_path) == []
    assert query_ids(tmp_path) == [str(number) for number in range(100)]


async def test_exposures_beyond_the_bound_are_lost_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MOST_UNWRITTEN_BYTES", 3 * len(exposure("0")))
    instruments = GatewayInstruments()
    async with aclosing(Journal(tmp_path, instruments)) as journal:
        for number in range(5):
            journal.expose(exposure(str(number)))
    assert query_ids(tmp_path) == ["0", "1", "2"]
    counted = {outcome: instruments.journal_lines.labels("exposure", outcome) for outcome in ("written", "lost")}
    assert {outcome: counter._value.get() for outcome, counter in counted.items()} == {"written": 3, "lost": 2}


async def test_a_folder_that_is_gone_refuses_events_in_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    async with opened(folder) as journal:
        folder.rmdir()
        with pytest.raises(Unavailable, match="send the events again"):
            await journal.record(events("lost"))
        folder.mkdir()
        await journal.record(events("kept"))
    assert event_ids(folder) == ["kept"]


def remove_files(directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink()


async def test_a_file_that_is_removed_takes_no_more_lines(tmp_path: Path) -> None:
    async with opened(tmp_path) as journal:
        await journal.record(events("removed"))
        remove_files(tmp_path)
        await journal.record(events("kept"))
    assert event_ids(tmp_path) == ["kept"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([{**CLICK, "event_id": str(number)} for number in range(1_000)], 204),
        ([{**CLICK, "event_id": str(number)} for number in range(1_001)], 422),
        ([], 422),
        ([{**CLICK, "event_id": "e", "object_id": "apple", "position": 1, "value": 9.5}], 204),
        ([{**CLICK, "event_id": "e", "position": 0}], 422),
        ([{**CLICK, "event_id": "e", "position": 2**31}], 422),  # Elasticsearch refuses what no integer holds
        ([{**CLICK, "event_id": "e", "value": -1e12}], 204),
        ([{**CLICK, "event_id": "e", "value": 1e200}], 422),  # its square is infinite
        ([{**CLICK, "event_id": "e", "seen": True}], 422),
        ([{**CLICK, "event_id": "two words"}], 422),
        ([{**CLICK, "event_id": "e", "action_name": "Click!"}], 422),
        ([CLICK], 422),
    ],
)
async def test_events_within_the_bounds_are_kept_and_others_refused_whole(
    tmp_path: Path, body: list[dict[str, object]], status: int
) -> None:
    async with opened_stack(ingested=False, journal=tmp_path) as stack:
        answer = await stack.client.post("/v1/events", json={"events": body})
    assert answer.status_code == status, answer.text
    assert len(event_ids(tmp_path)) == (len(body) if status == 204 else 0)


async def test_without_a_journal_events_are_not_found_in_a_sentence() -> None:
    async with opened_stack(ingested=False) as stack:
        answer = await stack.client.post("/v1/events", json={"events": [{**CLICK, "event_id": "e"}]})
    assert answer.status_code == 422
    assert "GATEWAY_JOURNAL" in answer.json()["detail"]


# No file of this process may be longer than 4,000 bytes, until that is lifted. Prints what clients and metrics said.
FULL = """
import asyncio, json, re, resource, sys
from pathlib import Path
from gateway.online import journal
from tests.contract.test_journal import CLICK
from tests.contract.test_online_experiments import OF_BM25, search, shop

journal.FLUSH_S = 0.01

async def send(stack, *names):
    body = {"events": [{**CLICK, "event_id": name} for name in names]}
    return await stack.client.post("/v1/events", json=body)

async def main(folder):
    async with shop(folder) as stack:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, hard))
        sent = [(await send(stack, str(number))) for number in range(40)]
        searched = []
        for _ in range(30):
            searched.append((await search(stack, OF_BM25)).status_code)
            await asyncio.sleep(0.02)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        again = (await send(stack, "again")).status_code
        metrics = (await stack.client.get("/metrics")).text
    counts = {f"{kind} {outcome}": float(count) for kind, outcome, count in
              re.findall(r'^journal_lines_total{kind="(.+)",outcome="(.+)"} (.+)$', metrics, re.MULTILINE)}
    statuses = [answer.status_code for answer in sent]
    last = sent[-1].json()
    print(json.dumps([statuses, last["detail"], sent[-1].headers["retry-after"], searched, again, counts]))

asyncio.run(main(Path(sys.argv[1])))
"""


def test_on_a_full_disk_events_are_refused_exposures_counted_and_no_torn_line_stays(tmp_path: Path) -> None:
    command, paths = [sys.executable, "-c", FULL, str(tmp_path)], {"PYTHONPATH": str(ROOT / "clients" / "python")}
    ran = subprocess.run(command, cwd=ROOT, env=os.environ | paths, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2_000:]
    statuses, detail, retry_after, searched, again, counts = json.loads(ran.stdout.splitlines()[-1])
    acknowledged = [str(number) for number, status in enumerate(statuses) if status == 204]
    assert set(statuses) == {204, 503}
    assert "cannot be written (File too large); send the events again." in detail
    assert int(retry_after) >= 1
    assert set(searched) == {200}
    assert again == 204
    assert event_ids(tmp_path / "journal") == [*acknowledged, "again"]
    assert counts["event lost"] == statuses.count(503)
    assert counts["exposure lost"] == 30 - len(query_ids(tmp_path / "journal")) > 0
    assert all(
        file.read_bytes().endswith(b"\n") and file.stat().st_size <= 4_200 for file in (tmp_path / "journal").iterdir()
    )
    assert ran.stderr.count("the journal cannot be written") <= 1
