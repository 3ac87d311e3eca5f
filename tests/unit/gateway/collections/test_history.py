"""Live, building and previous generations follow from the backends' states, also in the middle of a switch."""

from dataclasses import replace

from gateway.collections.history import History
from gateway.collections.write_order import WriteClock
from services.contracts.collections import CollectionDeclaration, CollectionState

BOTH = frozenset({"lexical", "dense"})


def state(
    number: int,
    *,
    published: bool = False,
    at: float | None = None,
    build: str | None = None,
    publication: int | None = None,
) -> CollectionState:
    """`at`: when it was published last, which is also the number of that without another `publication`."""
    return CollectionState(
        generation=f"c@{number}",
        published=published,
        documents=1,
        engine="memory",
        stamp={},
        declaration=CollectionDeclaration(),
        build=build,
        published_at=at,
        publication=publication or (None if at is None else int(at)),
    )


def history(lexical: list[CollectionState], dense: list[CollectionState] | None = None) -> History:
    return History("c", {"lexical": tuple(lexical), "dense": tuple(lexical if dense is None else dense)}, BOTH)


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


def test_the_age_of_the_live_generation_is_the_least_by_the_services_own_clocks() -> None:
    hour_ahead, exact = state(2, published=True, at=3_620.0), state(2, published=True, at=20.0)
    clocks = {"lexical": 3_650.0, "dense": 45.0}
    assert replace(history([hour_ahead], [exact]), clocks=clocks).live_age_s() == 25.0
    stepped_back = {"lexical": 50.0, "dense": 45.0}
    assert replace(history([hour_ahead], [exact]), clocks=stepped_back).live_age_s() == 0.0


def test_the_age_of_the_live_generation_is_unknown_until_all_services_have_published_it_and_say_the_time() -> None:
    one, clocks = state(2, published=True, at=20.0), {"lexical": 30.0, "dense": 30.0}
    assert replace(history([one], [state(1, published=True, at=1.0), state(2)]), clocks=clocks).live_age_s() is None
    assert replace(history([one], []), clocks=clocks).live_age_s() is None
    assert replace(history([one]), clocks={"lexical": 30.0, "dense": None}).live_age_s() is None


def test_publications_are_ordered_by_number_whatever_the_clocks_say() -> None:
    found = history([state(3, at=2.0, publication=1), state(4, published=True, at=1.0, publication=2)])
    assert found.previous == "c@3"
    back = history([state(1, published=True, at=5.0, publication=3), state(2, at=3_000.0, publication=2), state(3)])
    assert back.other_targets("c@1") == ["c@3"]


def test_a_number_that_a_service_missed_does_not_change_the_order() -> None:
    lexical = [
        state(1, at=1, publication=4),
        state(2, at=2, publication=2),
        state(3, published=True, at=3, publication=5),
    ]
    dense = [state(1, at=1), state(2, at=2, publication=2), state(3, published=True, at=3)]
    assert history(lexical, dense).previous == history(dense, lexical).previous == "c@1"


def test_a_publication_is_numbered_above_all_others_and_keeps_its_number_when_repeated() -> None:
    assert history([state(1)]).number_to_publish("c@1") == 1
    lexical = [state(1, at=1, publication=1), state(2, published=True, at=2, publication=2), state(3)]
    dense = [state(1, published=True, at=1, publication=1), state(2), state(3)]
    half = history(lexical, dense)
    assert [half.number_to_publish(one) for one in ("c@1", "c@2", "c@3")] == [3, 2, 3]


def test_superseded_are_generations_that_were_never_live_and_those_below_the_target_of_a_rollback() -> None:
    held = [state(1, at=1), state(2), state(3, at=2), state(4), state(5, published=True, at=3), state(6)]
    assert history(held).superseded(keep_previous=True) == {"c@1", "c@2", "c@4"}
    assert history(held).superseded(keep_previous=False) == {"c@1", "c@2", "c@3", "c@4"}
    assert history([state(1), state(2)]).superseded(keep_previous=False) == set()
    half = history(
        [state(1, at=1), state(2, at=2), state(3, published=True, at=3)], [state(1, at=1), state(2), state(3)]
    )
    assert half.superseded(keep_previous=True) == {"c@2"}


def test_versions_rise_whatever_the_clock_does() -> None:
    times = iter([10.0, 10.0, 9.0, 11.0])
    clock = WriteClock(lambda: next(times))
    assert [clock.next() for _ in range(4)] == [10_000_000, 10_000_001, 10_000_002, 11_000_000]


def test_a_backend_that_holds_a_generation_without_names_is_one_of_its_backends() -> None:
    held = (state(1, published=True, at=1),)
    found = History("c", {"lexical": held, "dense": held, "dense_bge": held, "sparse": ()}, BOTH)
    assert found.backends("c@1") == {"lexical", "dense", "dense_bge"}
