"""A small seeded part of each soak (`make soak` runs them in full): the same code, the same bars, fewer cases."""

import random
from pathlib import Path

import pytest

from tests.soak import (
    agreement,
    events,
    faults,
    hostile,
    keys,
    kills,
    looks,
    overload,
    rehearsals,
    trace,
    traffic,
    verdicts,
    wire,
)
from tests.soak.stack import COLLECTION
from tests.support.go_programs import ProgramMissingError
from tests.support.processes import started
from tests.support.times import repeated_when_late, timed

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]
SEED = 20_261_123


@pytest.mark.alone
async def test_hostile_requests_are_refused_and_leave_nothing_behind() -> None:
    (await hostile.run(SEED, 200)).demand()


@pytest.mark.alone
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
    (await verdicts.run(SEED, 8)).demand()


async def test_many_looks_at_equal_arms_have_few_winners_and_an_imbalance_is_found() -> None:
    (await looks.run(SEED, 10)).demand()


async def test_the_trace_of_a_search_is_one_tree_over_all_processes() -> None:
    (await trace.run(SEED, in_jaeger=False)).demand()


@pytest.mark.alone
async def test_wrong_keys_are_refused_beside_searches_with_a_right_one() -> None:
    (await keys.run(SEED, 1)).demand()


@pytest.mark.alone
async def test_a_certificate_is_replaced_below_running_processes() -> None:
    (await rehearsals.run("certificate", SEED)).demand()


async def test_a_rehearsal_sees_a_document_that_was_lost(tmp_path: Path) -> None:
    async with started(tmp_path) as processes:
        stores = {family: processes[family].port for family in traffic.STORES}
        flow = traffic.Traffic(processes["gateway"].port, stores, random.Random(SEED))
        await flow.load()
        assert await flow.lost() == []
        path = f"/v1/collections/{COLLECTION}/documents/delete"
        (await wire.ask(processes["gateway"].port, "POST", path, {"ids": ["r-7"]})).raise_for_status()
        assert [line[:5] for line in await flow.lost()] == ["r-7: "]


def test_a_rehearsal_replaces_its_own_part_of_the_page(tmp_path: Path) -> None:
    file = tmp_path / "rehearsals.md"
    for name, said in (("key", "old"), ("upgrade", "held"), ("key", "new\n\n## Cases that broke a bar\n\n- one")):
        rehearsals.put_section(file, f"# Soak: {name}\n\n{said}\n")
    upgrade, key = file.read_text(encoding="utf-8").split("\n## ")[1:]
    assert (upgrade, key) == ("upgrade\n\nheld\n", "key\n\nnew\n\n### Cases that broke a bar\n\n- one\n")


@pytest.mark.alone
@repeated_when_late
async def test_a_stack_at_four_times_what_it_carries_answers_as_much_and_sets_no_backend_aside() -> None:
    outcome = await overload.run(SEED, 4, pipelines=("hybrid",))
    goodput = {row[1]: float(row[3]) for row in outcome.rows if row[0] == "hybrid"}
    with timed():
        outcome.demand()
        assert goodput["4x"] > 0.5 * goodput["1x"], outcome.rows


@pytest.mark.alone
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
