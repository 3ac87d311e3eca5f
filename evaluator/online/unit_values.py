"""Computes the values of each unit of an online experiment by metric, and when they are known. Pure.

A value is the mean over the unit's searches within 24 hours of its first one, of what it did until then. Each page of a
ranking is a search of its own. Analysed by assigned arm, whichever pipeline answered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from evaluator.metrics.paired_differences import mean
from evaluator.online.journal import ExperimentJournal, UnitEvent

WINDOW_S = 24 * 3600.0
CLICK = "click"
ABANDONMENT = "abandonment"  # the one metric of which less is better
CREDITS = "credits"  # of an interleaving: clicked hits of the second arm minus those of the first


@dataclass(frozen=True, slots=True)
class UnitValues:
    """A unit: when it came (seconds since 1970), its arm and the shares then, and its values by metric.

    No `values` before its 24 hours are over, where it met two arms within them (`moved`: a share has changed), and in
    an interleaving where no search was answered by both.
    """

    at: float
    arm: str | None
    shares: Mapping[str, float]
    moved: bool
    values: Mapping[str, float] | None


def shown_metrics(journal: ExperimentJournal) -> tuple[str, ...]:
    """Returns the metrics of an experiment, the deciding one first. Each action that came with values is one."""
    if journal.shown.mode == "interleave":
        return (CREDITS,)
    events = (event for searches in journal.units.values() for search in searches for event in search.events)
    actions = sorted({event.action for event in events if event.value is not None})
    others = ("click@10", "reciprocal_rank", ABANDONMENT, *(f"value:{action}" for action in actions))
    return tuple(dict.fromkeys((journal.shown.metric, *others)))


def unit_values(journal: ExperimentJournal, metrics: Sequence[str], now: float) -> Iterator[UnitValues]:
    """Yields every unit, in the order in which they came and their 24 hours end."""
    searches_of = {unit: sorted(searches, key=attrgetter("at")) for unit, searches in journal.units.items()}
    for unit in sorted(searches_of, key=lambda unit: (searches_of[unit][0].at, unit)):
        first = searches_of[unit][0]
        end = first.at + WINDOW_S
        within = [search for search in searches_of[unit] if search.at < end]
        moved = any(search.arm != first.arm for search in within)
        done = [
            [event for event in search.events if event.at < end]
            for search in within
            if search.arm is not None or not (search.failed or search.error)
        ]
        values = None
        if end <= now and done and not moved:
            values = {
                metric: mean([_value(metric, events, journal.shown.control) for events in done]) for metric in metrics
            }
        yield UnitValues(first.at, first.arm, first.shares, moved, values)


def _value(metric: str, events: Sequence[UnitEvent], control: str) -> float:
    """Returns the value of a search by what its unit did, in this order."""
    name, _, of = metric.replace("@", ":").partition(":")
    if name == "value":
        return sum(event.value or 0.0 for event in events if event.action == of)
    clicked = {event.rank: event.team for event in events if event.action == CLICK and event.rank is not None}
    match name:
        case "click":
            return float(any(rank <= int(of) for rank in clicked))
        case "reciprocal_rank":
            return 1.0 / next(iter(clicked), float("inf"))
        case "abandonment":
            return float(not clicked)
        case _:
            return float(sum(-1 if team == control else 1 for team in clicked.values() if team is not None))
