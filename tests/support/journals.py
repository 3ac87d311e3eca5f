"""Writes journals of online experiments as gateways do: by the models of the wire."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from services.contracts.online import Event, Exposure, SentEvent, event_lines

START = datetime(2025, 12, 1, tzinfo=UTC)
HALVES = {"b": 0.5, "a": 0.5}  # whatever the order, `a` is the control


def hours(count: float) -> datetime:
    """Returns the time so many hours after the beginning."""
    return START + timedelta(hours=count)


def shown(unit: str, at: float = 0.0, arm: str | None = "a", hits: str = "xyz", **attributes: Any) -> Exposure:
    """Returns a search of a unit `at` hours after the beginning; each letter of `hits` is a document."""
    base = {"experiment": "shop", "salt": "winter", "mode": "split", "metric": "click@10", "control": "a"}
    return Exposure.model_validate(
        {
            "query_id": f"{unit}-{at}",
            "client_id": unit,
            "timestamp": hours(at),
            "query_response_hit_ids": tuple(hits),
            "query_attributes": {**base, "arm": arm, "shares": HALVES, "collection": "c", "ms": 5.0, **attributes},
        }
    )


def did(search: Exposure, after: float = 0.01, action: str = "click", **event: Any) -> Event:
    """Returns an event of a search, so many hours after it; by default a click that names nothing."""
    sent = SentEvent.model_validate(
        {
            "query_id": search.query_id,
            "client_id": search.client_id,
            "action_name": action,
            "event_id": f"{search.query_id}-{action}-{after}-{len(event)}",
            **event,
        }
    )
    return Event.model_validate_json(event_lines((sent,), search.timestamp + timedelta(hours=after)))


def write_journal(folder: Path, lines: Iterable[Exposure | Event], process: str = "g-1") -> Path:
    """Writes lines as those of one process; returns the folder."""
    folder.mkdir(exist_ok=True)
    for line in lines:
        kind = "ubi_queries" if isinstance(line, Exposure) else "ubi_events"
        with (folder / f"{kind}-20251201T000000-{process}-1.jsonl").open("ab") as file:
            file.write(line.model_dump_json(exclude_none=True).encode() + b"\n")
    return folder
