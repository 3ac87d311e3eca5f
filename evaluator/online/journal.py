"""Reads the journals of gateways: what units were shown, and what they did. Removes a unit from them.

A journal is a folder of files, or an Elasticsearch whose indexes `ubi_queries` and `ubi_events` hold their lines.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from evaluator.datasets.elasticsearch_index import delete_matching, index_rows
from evaluator.datasets.placed_documents import ReadingNotes
from evaluator.errors import EvaluationError
from services.contracts.base import Wire
from services.contracts.online import Event, Exposure, ShownAttributes
from services.files.regular_file import open_regular

QUERIES, EVENTS = "ubi_queries", "ubi_events"  # names of UBI: beginnings of files, and indexes
ADDRESS = ("http://", "https://")

Line = TypeVar("Line", bound=Wire)


class UnitEvent(NamedTuple):
    """What a unit did with an answer, at seconds since 1970; rank (from 1) and team are of its hit, if any."""

    at: float
    action: str
    object_id: str | None
    rank: int | None
    value: float | None
    team: str | None = None


class Search(NamedTuple):
    """A search of a unit, with its events in their order. `arm` is the assigned one; `shares` those of the time."""

    at: float
    arm: str | None
    shares: Mapping[str, float]
    ms: float
    degraded: bool
    failed: bool
    error: bool
    events: tuple[UnitEvent, ...]


@dataclass(slots=True)
class ExperimentJournal:
    """Searches by unit, in no order, of an experiment under one salt and mode. `shown`: as its last exposure has it.

    `others`: searches under older salts, modes or interleaved arms; `not_shown`: events of hits that their search had
    not shown; `same_id`: searches with the id of another one; `torn`: lines of all journals that cannot be read.
    """

    shown: ShownAttributes
    last: datetime
    units: dict[str, list[Search]] = field(default_factory=dict)
    others: int = 0
    not_shown: int = 0
    same_id: int = 0
    torn: int = 0


def read_journals(sources: Sequence[str], now: datetime, experiment: str | None = None) -> list[ExperimentJournal]:
    """Reads what had happened by `now`, of one or all experiments, under the newest salt of each; the newest first.

    A search or event that is there twice, as a shipper of logs may leave it, counts once. Raises EvaluationError.
    """
    torn, same_id = Counter[str](), Counter[str]()
    # First, so that the hits of a search need not be kept until its events are known.
    events = _events(sources, now, torn)
    journals: dict[tuple[str, ...], ExperimentJournal] = {}
    read: dict[str, datetime] = {}
    known: dict[tuple[tuple[str, float], ...], Mapping[str, float]] = {}  # shares, which are few
    for exposure in _lines(sources, QUERIES, Exposure, torn):
        shown, time = exposure.query_attributes, exposure.timestamp
        if time > now or experiment not in (None, shown.experiment) or read.get(exposure.query_id) == time:
            continue
        interleaved = sorted(shown.shares) if shown.mode == "interleave" else ()
        if read.setdefault(exposure.query_id, time) != time:
            same_id[shown.experiment] += 1
            continue
        journal = journals.setdefault((shown.experiment, shown.salt, *interleaved), ExperimentJournal(shown, time))
        if time > journal.last:
            journal.shown, journal.last = shown, time
        received = sorted(events.pop(exposure.query_id, {}).values(), key=attrgetter("at"))
        done = tuple(event for one in received if (event := _with_hit(one, exposure)) is not None)
        journal.not_shown += len(received) - len(done)
        search = Search(
            at=time.timestamp(),
            arm=shown.arm and sys.intern(shown.arm),
            shares=known.setdefault(tuple(shown.shares.items()), shown.shares),
            ms=shown.ms,
            degraded=shown.degraded,
            failed=bool(shown.failed),
            error=shown.error is not None,
            events=done,
        )
        journal.units.setdefault(exposure.client_id, []).append(search)
    if experiment is not None and torn and not journals:
        lines = f"{torn.total():,} lines cannot be read"
        raise EvaluationError(f"{', '.join(sources)}: no search of an experiment {experiment} by {now}, but {lines}")
    newest: dict[str, ExperimentJournal] = {}
    for journal in sorted(journals.values(), key=attrgetter("last"), reverse=True):
        kept = newest.setdefault(journal.shown.experiment, journal)
        kept.others += 0 if kept is journal else sum(map(len, journal.units.values()))
        kept.torn, kept.same_id = torn.total(), same_id[kept.shown.experiment]
    return list(newest.values())


def _events(sources: Sequence[str], now: datetime, torn: Counter[str]) -> dict[str, dict[str, UnitEvent]]:
    """Returns what was received for each search by the events' ids, with the rank that the app sent."""
    events: dict[str, dict[str, UnitEvent]] = {}
    for event in _lines(sources, EVENTS, Event, torn):
        of, action = event.event_attributes, sys.intern(event.action_name)
        if event.timestamp <= now:
            hit = None if of.object is None else of.object.object_id
            rank = None if of.position is None else of.position.ordinal
            received = UnitEvent(event.timestamp.timestamp(), action, hit, rank, of.value)
            events.setdefault(event.query_id, {}).setdefault(of.event_id, received)
    return events


def _with_hit(event: UnitEvent, exposure: Exposure) -> UnitEvent | None:
    """Returns an event with rank and team of its hit, without its id; None where the search has not shown the hit."""
    shown, hits = exposure.query_attributes, exposure.query_response_hit_ids
    if event.object_id is None and event.rank is None:
        return event
    place = (event.rank or 0) - 1 - shown.offset
    if event.object_id is not None:
        place = hits.index(event.object_id) if event.object_id in hits else -1
    if not 0 <= place < len(hits):
        return None
    team = shown.teams[place] if shown.teams is not None else None
    return event._replace(object_id=None, rank=event.rank or place + 1 + shown.offset, team=team)


def _lines(sources: Sequence[str], kind: str, model: type[Line], torn: Counter[str]) -> Iterator[Line]:
    for line in (line for source in sources for line in _written(source, kind)):
        try:
            yield model.from_record(line) if isinstance(line, bytes) else model.model_validate(line, extra="ignore")
        except ValidationError:
            torn[kind] += 1


def _written(source: str, kind: str) -> Iterator[bytes | Mapping[str, object]]:
    if source.startswith(ADDRESS):
        notes = ReadingNotes()
        yield from (row for _, row in index_rows(f"{source.rstrip('/')}/{kind}*", notes))
        notes.expect_nothing_wrong()
        return
    for file in _files(source, kind):
        with open_regular(file) as lines:
            yield from (line for line in lines if not line.isspace())  # those of a unit that was forgotten


def _files(folder: str, kind: str) -> list[Path]:
    if not Path(folder).is_dir():
        raise EvaluationError(f"{folder}: neither the folder of a journal nor the address of an Elasticsearch")
    return sorted(Path(folder).glob(f"{kind}-*.jsonl"))


def forget(unit: str, sources: Sequence[str]) -> int:
    """Removes the lines of a unit from journals, also torn ones. Returns how many. Raises EvaluationError."""
    return sum(
        delete_matching(f"{source.rstrip('/')}/{kind}*", "client_id", unit)
        if source.startswith(ADDRESS)
        else sum(_blank(file, unit) for file in _files(source, kind))
        for source in sources
        for kind in (QUERIES, EVENTS)
    )


def _blank(path: Path, unit: str) -> int:
    """Overwrites the lines of a unit with spaces, in place: a gateway may be appending to the file."""
    named = f'"client_id":{json.dumps(unit)}'.encode()
    count = at = 0
    with open_regular(path) as lines, path.open("r+b", buffering=0) as file:
        for line in lines:
            if named in line or line.endswith(named[:-1]):  # a torn line may end with the name
                file.seek(at)
                file.write(b" " * len(line.rstrip(b"\n")))
                count += 1
            at += len(line)
        os.fsync(file.fileno())
    return count
