"""Simulates users who click by a collection's judgments: over the rankings of a run, and against a gateway.

Over a run it tells how long the verdict of an online experiment would take, and how often it would be right.
"""

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evaluator.client.client import GatewayClient, loading_errors
from evaluator.datasets.judgments import qrels_file, read_judgments
from evaluator.datasets.queries import queries_file, read_queries
from evaluator.errors import EvaluationError, WrongOption
from evaluator.metrics.quality import Grades
from evaluator.metrics.sequential import DifferenceSequence, MeanSequence
from evaluator.pages.markdown_page import aligned
from evaluator.progress import Advance, progress
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.trec_runs import read_run
from evaluator.steps.rank import RankReport
from evaluator.steps.run_judgments import judgments_of_all
from services.contracts.online import Mode
from services.ranking.team_draft import team_draft

Model = Literal["cascade", "position"]
Numbers: TypeAlias = NDArray[np.float64]

DEPTH = 10  # hits on a page
SEARCHES = 2.0  # of a user, in the mean; their number is geometric
# The chances that a hit without and with the best grade attracts a click, and that this click satisfies; linear in the
# grade between. They are the navigational users of Hofmann, Whiteson and de Rijke 2013 (TOIS 31:4).
ATTRACTION, SATISFACTION = (0.05, 0.95), (0.2, 0.9)
DRAFTS = 32  # merged pages of a query to draw from
BLOCK = 500  # users simulated at once
IN_FLIGHT = 8  # users at once, against a gateway
SPLIT = "test"  # the judgments of a dataset, against a gateway
_CREDITS = {"first": -1.0, "second": 1.0, None: 0.0}
_RANKS = np.arange(1.0, DEPTH + 1)


def gains_of(grades: Grades) -> dict[str, dict[str, float]]:
    """Returns the grades of documents by query, as shares of the highest of all."""
    best = max((grade for judged in grades.values() for grade in judged.values()), default=0) or 1
    return {query: {document: grade / best for document, grade in of.items()} for query, of in grades.items()}


def _page_gains(pages: Mapping[str, Sequence[Sequence[str]]], gains: Mapping[str, Mapping[str, float]]) -> Numbers:
    """Returns the gains of each query's pages: 0 without a judgment, NaN behind the last hit."""
    return np.array([
        [_padded([gains.get(query, {}).get(hit, 0.0) for hit in page[:DEPTH]], np.nan) for page in variants]
        for query, variants in pages.items()
    ])  # fmt: skip


def _padded(values: list[float], beyond: float) -> list[float]:
    return values + [beyond] * (DEPTH - len(values))


def click_chances(model: Model, gains: Numbers) -> Numbers:
    """Returns the chance of a click on each hit, where none above has satisfied. `gains[..., rank]`.

    position: a rank is examined with the chance 1/rank (Joachims, Swaminathan and Schnabel 2017, section 6.1).
    """
    chances = np.nan_to_num(_by_gain(ATTRACTION, gains))
    return chances / _RANKS if model == "position" else chances


def clicked(model: Model, gains: Numbers, random: np.random.Generator) -> NDArray[np.bool_]:
    """Returns which hits of some pages are clicked. `gains[page, rank]`.

    cascade: from the top until a click satisfies (in Craswell et al. 2008 each does). position: each hit by itself.
    """
    clicks = random.random(gains.shape) < click_chances(model, gains)
    if model == "cascade":
        satisfied = clicks & (random.random(gains.shape) < _by_gain(SATISFACTION, gains))
        clicks &= np.cumsum(satisfied, axis=1) - satisfied == 0
    return clicks


def _by_gain(chances: tuple[float, float], gains: Numbers) -> Numbers:
    return chances[0] + (chances[1] - chances[0]) * gains


@dataclass(frozen=True, slots=True)
class Decision:
    """How one experiment ended. Winner: 1 the second arm, -1 the first, 0 none yet. Every search is an impression."""

    winner: int
    users: int
    searches: int


@dataclass(frozen=True, slots=True)
class SimulatedExperiment:
    """What users can be shown, `gains[query, variant, rank]`, and the worth of each click, of the same shape.

    The variants of a split are its arms, and its searches are worth their best click: that is the first one, as worth
    falls with the rank. Those of an interleaving are worth the sum: 1 for each hit of the second arm, -1 of the first.
    """

    mode: Mode
    model: Model
    gains: Numbers
    worth: Numbers

    def expected_difference(self) -> float:
        """Returns the mean worth of a search in the second arm of a split minus that in the first, without noise."""
        chances = click_chances(self.model, self.gains)
        first = chances * np.cumprod(1 - chances, axis=2) / (1 - chances)  # no chance is 1
        arms = (first * self.worth).sum(axis=2).mean(axis=0)
        return float(arms[1] - arms[0])

    def decided(self, most: int, random: np.random.Generator) -> Decision:
        """Runs until the interval leaves 0 out, or for `most` users. Looks after each thousandth more of them."""
        difference, mean = DifferenceSequence(), MeanSequence()
        users = searches = look = 0
        while users < most:
            sizes = random.geometric(1 / SEARCHES, min(BLOCK, most - users))
            treated = random.integers(2, size=len(sizes))
            values = self._values(sizes, treated, random)
            for size, treats, value in zip(sizes.tolist(), treated.tolist(), values.tolist(), strict=True):
                users, searches = users + 1, searches + size
                if self.mode == "split":
                    difference.add(bool(treats), 0.5, value)
                else:
                    mean.add(value)
                if users < look:
                    continue
                look = users + 1 + users // 1_000
                interval = difference.interval if self.mode == "split" else mean.interval
                if interval is not None and (interval[0] > 0 or interval[1] < 0):
                    return Decision(1 if interval[0] > 0 else -1, users, searches)
        return Decision(0, users, searches)

    def _values(self, sizes: NDArray[np.int64], treated: NDArray[np.int64], random: np.random.Generator) -> Numbers:
        """Returns the mean worth of each user's searches."""
        asked, variants = random.integers(len(self.gains), size=sizes.sum()), self.gains.shape[1]
        seen = np.repeat(treated, sizes) if self.mode == "split" else random.integers(variants, size=len(asked))
        clicks = clicked(self.model, self.gains[asked, seen], random) * self.worth[asked, seen]
        worth = clicks.max(axis=1) if self.mode == "split" else clicks.sum(axis=1)
        means: Numbers = np.add.reduceat(worth, np.cumsum(sizes) - sizes) / sizes
        return means


@dataclass(frozen=True, slots=True)
class Simulation:
    """Two arms of a run, and how the experiments of each mode ended."""

    arms: tuple[str, str]
    model: Model
    metric: str
    difference: float  # the expected metric of the second arm minus that of the first
    decisions: Mapping[Mode, Sequence[Decision]]


def simulate_run(
    folder: RunFolder, arms: tuple[str, str], modes: Sequence[Mode], model: Model, metric: str, repeat: int, most: int,
    seed: int,
) -> Simulation:  # fmt: skip
    """Repeats an experiment with two arms of a run. Raises EvaluationError: an unknown arm or metric, no judgments."""
    ranked = folder.read("rank.json", RankReport)
    if unknown := set(arms) - {arm.name for arm in ranked.arms}:
        raise WrongOption(f"--arms {unknown.pop()}: the run has {', '.join(arm.name for arm in ranked.arms)}")
    gains, runs = gains_of(judgments_of_all([folder]).grades), [read_run(folder.run_file(arm)) for arm in arms]
    pairs = {query: (runs[0].get(query, ()), runs[1].get(query, ())) for query in ranked.queries}
    drafts = {query: _drafts(*pair) for query, pair in pairs.items()}
    merged = {query: [[hit for hit, _ in draft] for draft in variants] for query, variants in drafts.items()}
    shown = _page_gains(pairs, gains)
    credits = [[_padded([_CREDITS[team] for _, team in draft], 0.0) for draft in every] for every in drafts.values()]
    experiments: dict[Mode, SimulatedExperiment] = {
        "split": SimulatedExperiment("split", model, shown, np.broadcast_to(_worth_by_rank(metric), shown.shape)),
        "interleave": SimulatedExperiment("interleave", model, _page_gains(merged, gains), np.array(credits)),
    }
    decisions = {mode: list[Decision]() for mode in modes}
    for mode in modes:
        with progress(f"Simulating {mode}", repeat, "experiments") as advance:
            for number in range(repeat):
                decisions[mode].append(experiments[mode].decided(most, np.random.default_rng((seed, number))))
                advance(1)
    return Simulation(arms, model, metric, experiments["split"].expected_difference(), decisions)


def _worth_by_rank(metric: str) -> Numbers:
    if metric == "reciprocal_rank":
        return 1 / _RANKS
    if re.fullmatch(r"click@[1-9]\d*", metric):
        return np.where(int(metric.removeprefix("click@")) >= _RANKS, 1.0, 0.0)
    raise WrongOption(f"--metric {metric}: simulated users are compared by click@K or reciprocal_rank")


def _drafts(first: Sequence[str], second: Sequence[str]) -> list[list[tuple[str, str | None]]]:
    """Returns merged pages. Each set of coins is used twice, with the sides exchanged, so that neither is luckier."""
    return [
        team_draft(*rankings, DEPTH, number.to_bytes(2))
        for number in range(DRAFTS // 2)
        for rankings in ((first, second, ("first", "second")), (second, first, ("second", "first")))
    ]


def render_simulation(simulated: Simulation) -> str:
    """Renders a table of the modes, and how many times fewer searches interleaving needs, where both were simulated."""
    first, second = simulated.arms
    truth = int(np.sign(simulated.difference))
    rows = [["mode", "right", "wrong", "users, median", "users, 95 %", "searches, median"]]
    medians: dict[Mode, float] = {}
    for mode, decisions in simulated.decisions.items():
        right = sum(decision.winner == truth for decision in decisions)
        wrong = sum(decision.winner not in (truth, 0) for decision in decisions)
        users = sorted(decision.users if decision.winner else math.inf for decision in decisions)
        searches = sorted(decision.searches if decision.winner else math.inf for decision in decisions)
        places = [math.ceil(share * len(decisions)) - 1 for share in (0.5, 0.95)]
        medians[mode] = searches[places[0]]
        counts = [*(users[place] for place in places), medians[mode]]
        shares = [f"{cases / len(decisions):.1%}" for cases in (right, wrong)]
        rows.append([mode, *shares, *(f"{count}" if count < math.inf else "no verdict" for count in counts)])
    words = f"Expected {simulated.metric} of {simulated.model} users: {second} {simulated.difference:+z.4f} to {first}."
    if len(medians) > 1 and max(medians.values()) < math.inf:
        words += f" Interleaving needs {medians['split'] / medians['interleave']:.1f} times fewer searches (medians)."
    return f"{aligned(rows)}\n\n{words}"


async def send_users(
    client: GatewayClient, collection: str, experiment: str, directory: Path, users: int, model: Model, seed: int
) -> None:
    """Sends the searches of simulated users, which are judged queries of a dataset, and their clicks as events.

    Raises EvaluationError for a dataset without such queries, and for the first call that fails.
    """
    grades = read_judgments(qrels_file(directory, SPLIT)).grades
    texts, gains = read_queries(queries_file(directory), skip_unsendable=True).texts, gains_of(grades)
    asked = [query for query in grades if query in texts]
    if not asked:
        raise EvaluationError(f"{directory}: no query has a judgment")
    numbers = iter(range(users))

    async def send(advance: Advance) -> None:
        for number in numbers:
            unit, random = f"simulated-{seed}-{number}", np.random.default_rng((seed, number))
            for query in random.choice(asked, random.geometric(1 / SEARCHES)):
                answer = await client.loader.search(collection, texts[query], pipeline=experiment, top=DEPTH, unit=unit)
                if answer.experiment is None:
                    raise EvaluationError(f"{experiment} is no experiment, or it has ended; its answer names none")
                hits = [hit.id for hit in answer.hits]
                clicks = clicked(model, _page_gains({query: [hits]}, gains)[0], random)[0]
                events = [
                    {"query_id": answer.request_id, "client_id": unit, "action_name": "click", "object_id": hits[place],
                     "position": place + 1, "event_id": f"{answer.request_id}-{place}"}
                    for place in np.flatnonzero(clicks).tolist()
                ]  # fmt: skip
                if events:
                    await client.loader.send_events(events)
            advance(1)

    with progress("Simulating", users, "users") as advance, loading_errors("online simulate", "search and events"):
        await asyncio.gather(*(send(advance) for _ in range(IN_FLIGHT)))
