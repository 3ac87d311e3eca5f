"""Journals are read once, whatever their order, their torn lines and their duplicates; a unit leaves no trace."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.errors import EvaluationError
from evaluator.online.journal import ExperimentJournal, UnitEvent, forget, read_journals
from services.contracts.online import Event, Exposure
from tests.support.journals import did, hours, shown, write_journal

NOW = hours(1_000)


def read(folder: Path, *more: Path) -> ExperimentJournal:
    (journal,) = read_journals([str(one) for one in (folder, *more)], NOW, "shop")
    return journal


def events_of(folder: Path, unit: str = "u") -> tuple[UnitEvent, ...]:
    return read(folder).units[unit][0].events


@pytest.mark.parametrize(
    ("offset", "event", "rank"),
    [
        (0, {"object_id": "y"}, 2),
        (0, {"position": 3}, 3),
        (0, {"object_id": "y", "position": 7}, 7),
        (20, {"object_id": "y"}, 22),
        (20, {"position": 23}, 23),
        (0, {}, None),
    ],
)
def test_an_event_has_the_rank_of_its_hit(tmp_path: Path, offset: int, event: dict[str, Any], rank: int | None) -> None:
    search = shown("u", offset=offset)
    (only,) = events_of(write_journal(tmp_path, [search, did(search, **event)]))
    assert only.rank == rank


@pytest.mark.parametrize(
    ("offset", "event"),
    [(0, {"object_id": "w"}), (0, {"object_id": "w", "position": 1}), (0, {"position": 4}), (20, {"position": 3})],
)
def test_an_event_of_a_hit_that_was_not_shown_is_counted_and_ignored(
    tmp_path: Path, offset: int, event: dict[str, Any]
) -> None:
    search = shown("u", offset=offset)
    journal = read(write_journal(tmp_path, [search, did(search, **event)]))
    assert (journal.units["u"][0].events, journal.not_shown) == ((), 1)


def test_an_event_knows_the_team_of_its_hit(tmp_path: Path) -> None:
    search = shown("u", arm=None, mode="interleave", teams=("a", None, "b"))
    events = [did(search, at, object_id=hit) for at, hit in enumerate("zyx")]
    assert [event.team for event in events_of(write_journal(tmp_path, [search, *events]))] == ["b", None, "a"]


def test_searches_and_events_that_are_there_twice_count_once_in_any_order_of_files(tmp_path: Path) -> None:
    searches = [shown(unit, at) for unit in "uvw" for at in (0, 1, 2)]
    lines: list[Exposure | Event] = [*searches, *(did(search, object_id="x") for search in searches)]
    one = read(write_journal(tmp_path / "one", lines))
    for number, line in enumerate(random.Random(7).sample([*lines, *lines], 2 * len(lines))):
        write_journal(tmp_path / f"gateway-{number % 2}", [line], f"g-{number % 5}")
    other = read(tmp_path / "gateway-0", tmp_path / "gateway-1")
    assert {unit: sorted(own) for unit, own in other.units.items()} == one.units


def test_events_of_two_searches_may_have_one_id(tmp_path: Path) -> None:
    searches = [shown(unit) for unit in "uv"]
    click = did(searches[0], object_id="x")
    clicks = [click.model_copy(update={"query_id": search.query_id}) for search in searches]
    write_journal(tmp_path, [*searches, *clicks, *clicks])
    assert [len(events_of(tmp_path, unit)) for unit in "uv"] == [1, 1]


def test_searches_that_share_an_id_are_left_out_but_one_and_counted(tmp_path: Path) -> None:
    searches = [shown(unit, at).model_copy(update={"query_id": "mine"}) for at, unit in enumerate("uvw")]
    searches[2] = searches[2].model_copy(update={"query_attributes": shown("w", salt="spring").query_attributes})
    journal = read(write_journal(tmp_path, [*searches, searches[0]]))
    assert (list(journal.units), journal.same_id) == (["u"], 2)


def test_an_interleaving_of_other_arms_is_another_one(tmp_path: Path) -> None:
    old = shown("u", 0, None, mode="interleave", shares={"a": 0.5, "c": 0.5})
    journal = read(write_journal(tmp_path, [old, shown("v", 1, None, mode="interleave")]))
    assert (list(journal.units), journal.others) == (["v"], 1)


def test_a_torn_line_is_left_out_and_counted(tmp_path: Path) -> None:
    search = shown("u")
    write_journal(tmp_path, [search, did(search, object_id="x")])
    (queries,) = tmp_path.glob("ubi_queries-*")
    whole = queries.read_bytes()
    queries.write_bytes(whole + whole[:100])
    assert (len(read(tmp_path).units["u"]), read(tmp_path).torn) == (1, 1)


def test_only_the_newest_salt_counts_and_nothing_of_the_future(tmp_path: Path) -> None:
    write_journal(tmp_path, [shown("u", 0, salt="autumn"), shown("v", 1), shown("w", 2, experiment="other")])
    journal = read(write_journal(tmp_path, [shown("x", 2_000, salt="spring")]))
    assert (list(journal.units), journal.others) == (["v"], 1)
    every = read_journals([str(tmp_path)], NOW)
    assert [journal.shown.experiment for journal in every] == ["other", "shop"]


def test_what_is_no_journal_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=r"nowhere: neither"):
        read_journals([str(tmp_path / "nowhere")], NOW)


@given(st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8), unique=True))
def test_a_forgotten_unit_leaves_no_trace_and_all_others_stay(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    units, folder = [*names, "u", "u2", '"u"', "\\u"], tmp_path_factory.mktemp("journal")
    units = list(dict.fromkeys(units))
    for unit in units:
        search = shown(unit)
        write_journal(folder, [search, did(search, object_id="x")])
    gone = units[0]
    assert forget(gone, [str(folder)]) == 2
    assert set(read(folder).units) == {*units[1:]}
    assert all(len(own[0].events) == 1 for own in read(folder).units.values())
    assert (forget(gone, [str(folder)]), read(folder).torn) == (0, 0)


def test_a_unit_is_forgotten_in_a_torn_line_too_while_a_gateway_appends(tmp_path: Path) -> None:
    line = shown("u").model_dump_json().encode()
    file = tmp_path / "ubi_queries-1.jsonl"
    with file.open("ab", buffering=0) as appending:
        appending.write(line + b"\n" + line[: line.index(b'"client_id"') + len('"client_id":"u')])
        assert forget("u", [str(tmp_path)]) == 2
        appending.write(b"\n" + shown("v").model_dump_json().encode() + b"\n")
    assert b"client" not in file.read_bytes().splitlines()[0]
    assert (list(read(tmp_path).units), read(tmp_path).torn) == (["v"], 0)
