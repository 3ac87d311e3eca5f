import asyncio
import json
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.client.client import GatewayError, connected
from evaluator.errors import EvaluationError, WrongOption
from evaluator.online.simulate import (
    DEPTH,
    DRAFTS,
    Decision,
    Model,
    SimulatedExperiment,
    Simulation,
    click_chances,
    clicked,
    gains_of,
    render_simulation,
    send_users,
    simulate_run,
)
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.run_import import import_runs
from services.contracts.online import EventsRequest, Mode
from tests.support.simulated_runs import write_collection, write_three_rankings

MODES: tuple[Mode, ...] = ("split", "interleave")
PAGES = 40_000


def page(*gains: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([*gains, *[np.nan] * (DEPTH - len(gains))])


def click_rates(model: Model, *gains: float) -> list[float]:
    pages = np.tile(page(*gains), (PAGES, 1))
    return [float(rate) for rate in clicked(model, pages, np.random.default_rng(1)).mean(axis=0)]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run in which the relevant document stands at 1 or 2 (good), 2 to 4 (fair), 4 to 8 (bad)."""
    files = write_three_rankings(tmp_path)
    collection = write_collection(tmp_path / "shop")
    return import_runs(tmp_path / "runs", files, collection, split="test", name=None, depth=None)


def test_a_satisfied_user_of_the_cascade_looks_no_further() -> None:
    rates = click_rates("cascade", 1.0, 0.5, 0.0)
    # Worked by hand: attraction .95, .5, .05; satisfied .9, .55, .2.
    goes_on = 1 - 0.95 * 0.9
    assert rates[:3] == pytest.approx([0.95, 0.5 * goes_on, 0.05 * goes_on * (1 - 0.5 * 0.55)], abs=0.01)
    assert rates[3:] == [0.0] * (DEPTH - 3)


def test_a_user_of_the_position_model_examines_a_rank_by_its_inverse() -> None:
    rates = click_rates("position", 1.0, 1.0, 0.0, 1.0)
    assert rates[:4] == pytest.approx([0.95, 0.95 / 2, 0.05 / 3, 0.95 / 4], abs=0.01)


def test_gains_are_shares_of_the_best_grade_of_all() -> None:
    assert gains_of({"q1": {"d1": 2, "d2": 1}, "q2": {"d1": 1}}) == {"q1": {"d1": 1.0, "d2": 0.5}, "q2": {"d1": 0.5}}
    assert gains_of({"q1": {"d1": 0}}) == {"q1": {"d1": 0.0}}


@pytest.mark.parametrize("model", ["cascade", "position"])
def test_the_truth_is_what_many_clicks_average_to(model: Model) -> None:
    first, second = page(0.0, 1.0, 0.5), page(0.5, 0.0, 0.0, 1.0)
    worth = 1 / np.arange(1.0, DEPTH + 1)
    gains = np.array([[first, second]])
    experiment = SimulatedExperiment("split", model, gains, np.broadcast_to(worth, gains.shape))
    means = [
        (clicked(model, np.tile(one, (PAGES, 1)), np.random.default_rng(2)) * worth).max(axis=1).mean()
        for one in (first, second)
    ]
    assert experiment.expected_difference() == pytest.approx(means[1] - means[0], abs=0.01)
    assert click_chances(model, gains).max() < 1


@pytest.mark.parametrize("model", ["cascade", "position"])
def test_the_better_ranker_wins_and_interleaving_sees_it_sooner(folder: RunFolder, model: Model) -> None:
    simulated = simulate_run(folder, ("bad", "good"), MODES, model, "reciprocal_rank", 20, 20_000, 1)
    assert simulated.difference > 0
    for mode in MODES:
        assert {decision.winner for decision in simulated.decisions[mode]} == {1}
    split, interleave = (np.median([d.searches for d in simulated.decisions[mode]]) for mode in MODES)
    assert interleave < split


def test_a_worse_second_arm_loses(folder: RunFolder) -> None:
    simulated = simulate_run(folder, ("good", "bad"), MODES, "cascade", "click@3", 5, 20_000, 1)
    assert simulated.difference < 0
    assert {decision.winner for mode in MODES for decision in simulated.decisions[mode]} == {-1}


def test_of_identical_arms_none_is_preferred(folder: RunFolder) -> None:
    simulated = simulate_run(folder, ("fair", "fair"), MODES, "cascade", "click@10", 5, 2_000, 3)
    assert simulated.difference == 0
    assert [decision.winner for decision in simulated.decisions["interleave"]] == [0] * 5
    assert Counter(decision.winner for decision in simulated.decisions["split"])[0] >= 4
    assert all(decision.users == 2_000 for decision in simulated.decisions["interleave"])


def test_the_same_seed_repeats_the_simulation(folder: RunFolder) -> None:
    def simulated(seed: int) -> Simulation:
        return simulate_run(folder, ("bad", "fair"), ("interleave",), "cascade", "click@10", 3, 5_000, seed)

    assert simulated(1) == simulated(1) != simulated(2)


def test_an_experiment_ends_with_its_last_user() -> None:
    gains = np.zeros((1, DRAFTS, DEPTH))
    experiment = SimulatedExperiment("interleave", "cascade", gains, gains)
    decision = experiment.decided(700, np.random.default_rng(1))
    assert (decision.winner, decision.users) == (0, 700)
    assert 1_200 < decision.searches < 1_600


def test_what_cannot_be_simulated_is_refused_by_its_option(folder: RunFolder) -> None:
    with pytest.raises(WrongOption, match=r"^--arms mine: the run has "):
        simulate_run(folder, ("good", "mine"), MODES, "cascade", "click@10", 1, 100, 1)
    for metric in ("abandonment", "click@0", "value:buy"):
        with pytest.raises(WrongOption, match=f"^--metric {metric}: "):
            simulate_run(folder, ("good", "bad"), MODES, "cascade", metric, 1, 100, 1)


def test_the_table_counts_verdicts_and_compares_the_modes() -> None:
    decided = [Decision(1, 1_000, 2_000)] * 19 + [Decision(-1, 3_000, 6_000)]
    quick = [Decision(1, 200, 400)] * 10 + [Decision(0, 5_000, 10_000)] * 10
    page = render_simulation(
        Simulation(("bm25", "dense"), "cascade", "click@10", 0.05, {"split": decided, "interleave": quick})
    )
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines()[2:4]]
    assert cells == [
        ["split", "95.0%", "5.0%", "1000", "1000", "2000"],
        ["interleave", "50.0%", "0.0%", "200", "no verdict", "400"],
    ]
    assert "dense +0.0500 to bm25" in page
    assert "Interleaving needs 5.0 times fewer searches" in page


def test_users_search_click_and_send_events(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []
    sent: list[EventsRequest] = []

    def gateway(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/events":
            sent.append(EventsRequest.model_validate_json(request.content))
            return httpx.Response(204)
        body = json.loads(request.content)
        assert body["pipeline"] == "shop-test"
        asked.append((request.headers["x-unit-id"], body["query"]))
        number = body["query"].removeprefix("question ")
        hits = [{"id": id, "rank": rank, "score": 1.0} for rank, id in enumerate(("f1", f"r{number}"), start=1)]
        answer = {
            "collection": "shop@1",
            "pipeline": {"name": "shop-test", "fingerprint": "0"},
            "request_id": f"request-{len(asked)}",
            "hits": hits,
            "timings_ms": {},
            "experiment": {"name": "shop-test", "arm": "good"},
        }
        return httpx.Response(200, json=answer)

    collection = write_collection(tmp_path / "shop")

    async def send(number: int) -> None:
        async with connected("http://localhost", httpx.MockTransport(gateway)) as client:
            await send_users(client, "shop", "shop-test", collection, number, "cascade", 5)

    asyncio.run(send(100))
    units = Counter(unit for unit, _ in asked)
    assert len(units) == 100
    assert 1.5 < len(asked) / len(units) < 2.5
    assert len({query for _, query in asked}) > 40
    events = [event for request in sent for event in request.events]
    by_position = Counter(event.position for event in events)
    assert by_position.keys() == {1, 2}
    assert by_position[2] > 10 * by_position[1]  # the relevant hit is the second one
    assert len({event.event_id for event in events}) == len(events)
    of_search = {f"request-{number}": unit for number, (unit, _) in enumerate(asked, start=1)}
    assert all(event.client_id == of_search[event.query_id] for event in events)
    assert {event.action_name for event in events} == {"click"}


PLAIN = {
    "collection": "c@1", "pipeline": {"name": "bm25", "fingerprint": "0"}, "request_id": "r", "hits": [],
    "timings_ms": {},
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [(404, {"detail": "no such pipeline"}, GatewayError), (200, PLAIN, EvaluationError)],
)
def test_a_gateway_without_the_experiment_ends_the_simulation(
    tmp_path: Path, status: int, answer: dict[str, object], error: type[Exception]
) -> None:
    async def send() -> None:
        transport = httpx.MockTransport(lambda _: httpx.Response(status, json=answer))
        async with connected("http://localhost", transport) as client:
            await send_users(client, "shop", "gone", write_collection(tmp_path / "shop"), 10, "cascade", 1)

    with pytest.raises(error):
        asyncio.run(send())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--run {run} --arms good,bad --users 3", "leave out --users"),
        ("--run {run} --arms good", "--arms: name two"),
        ("--repeat 3", "leave out --repeat"),
        ("--experiment shop --collection demo", "--dataset are needed"),
    ],
)
def test_the_command_refuses_options_of_the_other_way(folder: RunFolder, words: str, said: str) -> None:
    done = CliRunner().invoke(app, ["online", "simulate", *words.format(run=folder.path).split()])
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_the_command_prints_the_table_of_a_run(folder: RunFolder) -> None:
    words = f"--run {folder.path} --arms bad,good --repeat 3 --mode interleave"
    done = CliRunner().invoke(app, ["online", "simulate", *words.split()])
    assert done.exit_code == 0, done.stderr
    assert "| interleave | 100.0% | 0.0%" in done.stdout
