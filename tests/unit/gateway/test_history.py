"""Live, building and previous generations follow from the backends' states, also in the middle of a switch."""

from gateway.history import History
from gateway.write_clock import WriteClock
from services.contracts.collections import CollectionDeclaration, CollectionState


def state(
    number: int, *, published: bool = False, at: float | None = None, build: str | None = None
) -> CollectionState:
    return CollectionState(
        generation=f"c@{number}",
        published=published,
        documents=1,
        engine="memory",
        stamp={},
        declaration=CollectionDeclaration(),
        build=build,
        published_at=at,
    )


def history(lexical: list[CollectionState], dense: list[CollectionState] | None = None) -> History:
    return History("c", {"lexical": tuple(lexical), "dense": tuple(lexical if dense is None else dense)})


def test_the_highest_published_generation_is_live_while_services_are_being_switched() -> None:
    before, after = [state(1, published=True, at=1), state(2)], [state(1, at=1), state(2, published=True, at=2)]
    assert history(before).live == "c@1"
    assert history(after, before).live == history(after).live == "c@2"


def test_all_generations_above_the_live_one_that_were_never_live_are_builds() -> None:
    found = history([state(1), state(2, published=True, at=1), state(3), state(10)])
    assert (found.builds, found.building) == (["c@3", "c@10"], "c@10")
    assert history([state(1), state(2)]).builds == ["c@1", "c@2"]


def test_a_generation_that_was_rolled_back_is_no_build_and_gets_no_live_writes() -> None:
    found = history([state(1, published=True, at=3), state(2, at=2), state(3)])
    assert (found.live, found.builds) == ("c@1", ["c@3"])
    assert found.other_targets("c@1") == ["c@3"]


def test_a_generation_that_became_live_during_a_write_gets_it_too() -> None:
    assert history([state(1, at=1), state(2, published=True, at=2)]).other_targets("c@1") == ["c@2"]


def test_the_target_of_a_rollback_during_a_write_gets_it_too_and_so_do_builds_above() -> None:
    found = history([state(1, published=True, at=3), state(2), state(3, at=2), state(4)])
    assert found.other_targets("c@3") == ["c@1", "c@2", "c@4"]


def test_a_build_that_is_being_published_this_very_moment_still_gets_live_writes() -> None:
    dense = [state(1, published=True, at=1), state(2)]
    lexical = [state(1, published=True, at=1), state(2, at=2)]  # the time is recorded first
    assert history(lexical, dense).other_targets("c@1") == history(lexical).other_targets("c@1") == ["c@2"]


def test_a_rollback_goes_to_what_was_live_last_even_if_its_number_is_lower() -> None:
    found = history([state(1, at=3), state(2, at=2), state(3, published=True, at=4)])
    assert found.previous == "c@1"


def test_a_rollback_goes_only_to_a_generation_that_was_live_everywhere() -> None:
    live = state(4, published=True, at=4)
    whole = [state(1, at=1), state(2, at=2), state(3), live]
    assert history(whole).previous == "c@2"
    assert history(whole, [state(1, at=1), state(2), live]).previous == "c@1"
    assert history([state(3), live]).previous is None
    assert history([state(1)]).previous is None


def test_a_build_is_found_by_its_mark_unless_services_disagree_on_it() -> None:
    mine = [state(1, build="mine"), state(2, build="other"), state(3, build="mine")]
    assert history(mine).generation_of_build("mine") == "c@3"
    assert history(mine, [state(3, build="other")]).generation_of_build("mine") == "c@1"
    assert history(mine).generation_of_build("nobody's") is None


def test_live_since_counts_from_the_last_service_and_not_before_all_have_switched() -> None:
    one, other = state(2, published=True, at=20.0), state(2, published=True, at=30.0)
    assert history([one], [other]).live_since() == 30.0
    assert history([one], [state(1, published=True, at=1.0), state(2)]).live_since() is None
    assert history([one], []).live_since() is None


def test_versions_rise_whatever_the_clock_does() -> None:
    times = iter([10.0, 10.0, 9.0, 11.0])
    clock = WriteClock(lambda: next(times))
    assert [clock.next() for _ in range(4)] == [10_000_000, 10_000_001, 10_000_002, 11_000_000]


def test_a_clock_that_is_behind_continues_above_the_version_it_was_advanced_to() -> None:
    clock = WriteClock(lambda: 10.0)
    clock.advance(None)
    clock.advance(50_000_000)
    assert [clock.next(), clock.next()] == [50_000_001, 50_000_002]
