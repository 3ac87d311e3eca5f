"""Owns online experiments on the wire: their declaration, the assignment of units, exposures and events.

Lines of the journal have the field names of OpenSearch's User Behavior Insights 1.3 (ubi_queries, ubi_events).
"""

import hashlib
import math
from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal, Self

from pydantic import AwareDatetime, ConfigDict, Field, FiniteFloat, model_validator

from services.contracts.base import Count, DocumentId, Name, Number, Wire
from services.contracts.lists import Items

Mode = Literal["split", "interleave"]
# A user or a session, by a name that the app chooses; an action of one, and the id of an event or a search.
UnitId = Annotated[str, Field(pattern=r"^[!-~]{1,128}$")]
ActionName = Annotated[str, Field(pattern=r"^[a-z0-9_.-]{1,64}$")]
# Of a unit's searches: whether a hit of the first K was clicked, the reciprocal rank of the first click, whether
# nothing was, and the sum of `value` of the events of an action.
OnlineMetric = Annotated[
    str, Field(pattern=r"^(click@[1-9][0-9]{0,2}|reciprocal_rank|abandonment|value:[a-z0-9_.-]+)$")
]
DEFAULT_METRIC = "click@10"
Share = Annotated[float, Field(ge=1e-6, le=1e6)]  # so that one less a share is never 0
# What reports can square and sum, and Elasticsearch can index.
Value = Annotated[Number, Field(ge=-1e12, le=1e12)]
Rank = Annotated[int, Field(strict=True, ge=1, lt=2**31)]
MOST_ARMS = 8
MOST_EVENTS = 1_000


class OnlineExperiment(Wire):
    """The arms of an experiment, pipelines by name with their shares (any scale); the first one is the control.

    `interleave` merges two arms into one ranking for every unit. From `ends` on, the first arm answers all searches.
    """

    arms: Annotated[dict[Name, Share], Field(min_length=2, max_length=MOST_ARMS)]
    salt: Name
    mode: Mode = "split"
    metric: OnlineMetric = DEFAULT_METRIC
    ends: date | None = None

    @model_validator(mode="after")
    def _fits_its_mode(self) -> Self:
        if self.mode == "interleave":
            if len(self.arms) != 2 or len(set(self.arms.values())) != 1:
                raise ValueError("mode: interleave shows two arms to every unit; give two, with equal shares")
            if self.metric != DEFAULT_METRIC:  # an experiment that is serialised in full must parse again
                raise ValueError(
                    "metric: an interleaving is decided by the clicks on each arm's hits; leave metric out"
                )
        return self

    @property
    def control(self) -> Name:
        """The first arm."""
        return next(iter(self.arms))

    @property
    def shares(self) -> dict[Name, float]:
        """The shares by arm; their sum is 1."""
        whole = sum(self.arms.values())
        return {arm: share / whole for arm, share in self.arms.items()}

    def arm_of(self, unit: UnitId) -> Name:
        """Returns the arm of a unit, by weighted rendezvous hashing (Schindelhauer and Schomaker 2005, section 4).

        Everywhere the same. Where one share grows against the others, no unit leaves its arm.
        """
        return max(self.arms, key=lambda arm: self.arms[arm] / -math.log(_uniform(self.salt, unit, arm)))


def _uniform(*parts: str) -> float:
    """Returns a number strictly between 0 and 1 by hashing the parts."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return (int.from_bytes(digest) + 0.5) / 2**64


class ExperimentPipeline(Wire):
    """A pipeline's file that has an experiment in place of stages."""

    name: Name
    description: str = ""
    experiment: OnlineExperiment


class ExperimentRef(Wire):
    """The experiment behind an answer, and the arm of its unit; an interleaving has no arm."""

    name: Name
    arm: Name | None = None


class ShownAttributes(Wire):
    """What the journal keeps of a search in an experiment, beside the ids of its hits.

    `arm` is the assigned one, null in an interleaving, whose `teams` are by hit; null: credited to none. `shares` are
    those of the time. `failed`: arms that did not answer, by reason; with `error` none did, and there are no hits.
    """

    experiment: Name
    salt: Name
    mode: Mode
    metric: OnlineMetric
    control: Name  # shippers of logs sort the keys of `shares`
    arm: Name | None = None
    shares: dict[Name, float]
    collection: str
    offset: Count = 0
    teams: tuple[Name | None, ...] | None = None
    failed: dict[Name, str] = {}
    error: str | None = None
    degraded: bool = False
    ms: FiniteFloat


class Exposure(Wire):
    """A line of ubi_queries: what a unit was shown for a search."""

    query_id: str
    client_id: UnitId
    timestamp: AwareDatetime
    query_response_hit_ids: tuple[str, ...]
    query_attributes: ShownAttributes


class SentEvent(Wire):
    """What a unit did with an answer, as an app sends it. `query_id` is the answer's `request_id`.

    `position` is the rank of the hit `object_id`. Events of a search with the same `event_id` count once.
    """

    query_id: UnitId
    client_id: UnitId
    action_name: ActionName
    event_id: UnitId
    object_id: DocumentId | None = None
    position: Rank | None = None
    value: Value | None = None


class EventsRequest(Wire):
    """Events of any experiments."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"events": [
        {"query_id": "r1", "client_id": "user-17", "action_name": "click", "event_id": "e1", "object_id": "kettle"}
    ]}]})  # fmt: skip

    events: Annotated[tuple[SentEvent, ...], Items(1, MOST_EVENTS, fail_fast=True)]


class EventObject(Wire):
    """The document of an event."""

    object_id: DocumentId


class EventPosition(Wire):
    """The rank of the document of an event, from 1."""

    ordinal: Rank


class EventAttributes(Wire):
    """What UBI keeps apart from an event's action."""

    event_id: UnitId
    object: EventObject | None = None
    position: EventPosition | None = None
    value: Value | None = None


class Event(Wire):
    """A line of ubi_events."""

    query_id: UnitId
    client_id: UnitId
    action_name: ActionName
    timestamp: AwareDatetime
    event_attributes: EventAttributes


def event_lines(events: tuple[SentEvent, ...], now: AwareDatetime) -> bytes:
    """Returns the lines of ubi_events for events received now."""
    lines = []
    for sent in events:
        attributes: Mapping[str, object] = {
            "event_id": sent.event_id,
            "object": None if sent.object_id is None else {"object_id": sent.object_id},
            "position": None if sent.position is None else {"ordinal": sent.position},
            "value": sent.value,
        }
        named = sent.model_dump(include={"query_id", "client_id", "action_name"})
        event = Event.model_validate({**named, "timestamp": now, "event_attributes": attributes})
        lines.append(event.model_dump_json(exclude_none=True).encode() + b"\n")
    return b"".join(lines)
