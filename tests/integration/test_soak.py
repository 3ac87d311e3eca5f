"""A small seeded part of each soak (`make soak` runs them in full): the same code, the same bars, fewer cases."""

import pytest

from tests.soak import (
    corpus,
    cost,
    faults,
    hostile,
    judging,
    keys,
    kills,
    load,
    overload,
    power,
    replicas,
    shapes,
    stalled,
    timings,
)
from tests.support.processes import ROOT
from tests.support.times import repeated_when_late, timed

pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(240)]
SEED = 20_261_123


async def test_requests_of_eight_megabytes_of_any_shape_harm_nobody() -> None:
    (await shapes.run(SEED, 8)).demand()


async def test_hostile_requests_are_refused_and_leave_nothing_behind() -> None:
    (await hostile.run(SEED, 200)).demand()


@repeated_when_late
async def test_searches_are_answered_while_callers_stall_or_vanish() -> None:
    outcome = await stalled.run(SEED, 1)
    with timed():
        outcome.demand()


@repeated_when_late
async def test_faults_are_flagged_in_time_and_forgotten_when_they_are_over() -> None:
    outcome = await faults.run(SEED, 6)
    with timed():
        outcome.demand()


@repeated_when_late
async def test_one_broken_replica_of_two_degrades_hardly_anybody() -> None:
    outcome = await replicas.run(SEED, 1)
    with timed():
        outcome.demand()


async def test_what_was_acknowledged_outlives_kills() -> None:
    (await kills.run(SEED, 2)).demand()


async def test_the_gateways_cost_is_measured_alike_for_two_equal_trees() -> None:
    outcome = await cost.run(SEED, 5, against=ROOT)
    ratios = [float(row[4]) for row in outcome.rows]
    assert all(0.75 < ratio < 1.33 for ratio in ratios), outcome.rows


async def test_telling_the_services_own_times_costs_the_gateway_little() -> None:
    outcome = await timings.run(SEED, 5)
    ratios = [float(row[4]) for row in outcome.rows]
    assert all(0.75 < ratio < 1.33 for ratio in ratios), outcome.rows


async def test_wrong_keys_are_refused_beside_searches_with_a_right_one() -> None:
    (await keys.run(SEED, 1)).demand()


async def test_comparisons_keep_their_error_rate_power_and_coverage() -> None:
    (await power.run(SEED, 200, counts=(50,))).demand()


async def test_a_corpus_is_read_at_a_few_bytes_of_memory_a_document() -> None:
    (await corpus.run(SEED, 20_000)).demand()


async def test_a_load_meets_servers_whose_law_of_service_is_known() -> None:
    (await load.run(SEED, 200)).demand()


@repeated_when_late
async def test_a_stack_at_four_times_what_it_carries_answers_as_much_and_sets_no_backend_aside() -> None:
    outcome = await overload.run(SEED, 4, pipelines=("hybrid",))
    goodput = {row[1]: float(row[3]) for row in outcome.rows if row[0] == "hybrid"}
    with timed():
        outcome.demand()
        assert goodput["4x"] > 0.5 * goodput["1x"], outcome.rows


async def test_judge_next_needs_a_third_fewer_judgments_than_a_random_order() -> None:
    kinds = {"none judged before": False}
    (await judging.run(SEED, 4, kinds=kinds, share=0.1)).demand()
