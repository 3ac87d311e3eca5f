"""A small seeded part of each soak (`make soak` runs them in full): the same code, the same bars, fewer cases."""

import pytest

from tests.soak import agreement, events, faults, hostile, keys, kills, looks, overload, trace, verdicts
from tests.support.go_programs import ProgramMissingError
from tests.support.times import repeated_when_late, timed

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(240)]
SEED = 20_261_123


async def test_hostile_requests_are_refused_and_leave_nothing_behind() -> None:
    (await hostile.run(SEED, 200)).demand()


@repeated_when_late
async def test_faults_are_flagged_in_time_and_forgotten_when_they_are_over() -> None:
    outcome = await faults.run(SEED, 6)
    with timed():
        outcome.demand()


async def test_what_was_acknowledged_outlives_kills() -> None:
    (await kills.run(SEED, 2)).demand()


async def test_acknowledged_events_outlive_kills_of_the_gateway() -> None:
    (await events.run(SEED, 2)).demand()


async def test_no_sentence_of_a_run_contradicts_another() -> None:
    (await verdicts.run(SEED, 20)).demand()


async def test_many_looks_at_equal_arms_have_few_winners_and_an_imbalance_is_found() -> None:
    (await looks.run(SEED, 10)).demand()


async def test_the_trace_of_a_search_is_one_tree_over_all_processes() -> None:
    (await trace.run(SEED, in_jaeger=False)).demand()


async def test_wrong_keys_are_refused_beside_searches_with_a_right_one() -> None:
    (await keys.run(SEED, 1)).demand()


@repeated_when_late
async def test_a_stack_at_four_times_what_it_carries_answers_as_much_and_sets_no_backend_aside() -> None:
    outcome = await overload.run(SEED, 4, pipelines=("hybrid",))
    goodput = {row[1]: float(row[3]) for row in outcome.rows if row[0] == "hybrid"}
    with timed():
        outcome.demand()
        assert goodput["4x"] > 0.5 * goodput["1x"], outcome.rows


@pytest.mark.timeout(400)
@repeated_when_late
async def test_vegeta_sees_what_our_generator_sees() -> None:
    # `make soak` compares with k6 too, whose build takes two minutes of CPU. That of vegeta takes seconds.
    try:
        percentiles = await agreement.measured(SEED, 2, 4.0, ["vegeta"])
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    if not percentiles["ours"]:
        pytest.skip("this machine cannot tell: foreign load disturbed every turn")
    with timed():
        agreement.judged(SEED, percentiles).demand()
