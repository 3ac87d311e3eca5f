"""Simulated runs of three to five pipelines: report, recommendation, gate and `compare` never contradict each other.

    python -m tests.soak.verdicts RUN…

instead measures rates on the per-query figures of real runs, shifted so that all pipelines are equal.
"""

import random
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from evaluator.comparison.comparing import ComparisonSettings, compare
from evaluator.metrics.calibration import calibrate
from evaluator.metrics.verdict import PairedComparison, no_worse_gate
from evaluator.report.evaluation import quality_step
from evaluator.report.ranked_run import query_figures
from evaluator.report.report_step import report_step
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.rank import RankReport
from evaluator.steps.run_import import import_runs
from tests.soak.outcome import Bar, Outcome
from tests.support.simulated_runs import write_collection, write_rankings

RUNS = 1_000
METRIC = "nDCG@10"
SAYS = (
    "A run has three to five pipelines of drawn quality over 8 to 80 queries. Its report, the page, the gate and "
    "`compare` of every two pipelines, in a drawn direction, are set against each other."
)
SAMPLES, REPEATS, DRAWS, SEED = (50, 100, 300), 1_000, 1_999, 20_261_128
WINS = (0.04, 0.01)  # shares of the queries that win by 0.5, the others lose a little


async def run(seed: int, size: int = RUNS) -> Outcome:
    """Simulates `size` runs."""
    dice, broken = random.Random(seed), []
    outcomes = {"better": 0, "worse": 0, "same": 0, "cannot tell": 0}
    for number in range(size):
        with tempfile.TemporaryDirectory() as directory:
            report, folder = _simulated(Path(directory), dice)
            for pair in report.pairs:
                outcomes[pair.outcome] += 1
            broken += [f"run {number}: {what}" for what in _contradictions(report, folder, dice)]
    return Outcome(
        name="verdicts",
        says=SAYS,
        seed=seed,
        columns=("outcome of a pair", "pairs"),
        rows=tuple((name, str(count)) for name, count in outcomes.items()),
        bars=(Bar("no contradiction", f"{len(broken)} in {size} runs", not broken),),
        broken=tuple(broken),
    )


def _simulated(directory: Path, dice: random.Random) -> tuple[Report, RunFolder]:
    """Writes run files of pipelines of drawn quality, imports and reports them."""
    queries, names = dice.randrange(8, 81), ["bm25", "dense", "hybrid", "rerank", "colbert"][: dice.randrange(3, 6)]
    collection = write_collection(directory / "shop", queries)
    hard = [dice.gauss(0.8, 1.0) for _ in range(queries)]
    files = {}
    for name in names:
        shift, spread = dice.gauss(0.0, 0.5), dice.uniform(0.2, 1.2)
        ranks = {at: 1 + int(2 ** max(0.0, ease + dice.gauss(-shift, spread))) for at, ease in enumerate(hard)}
        found = {at: rank if rank <= 20 else None for at, rank in ranks.items()}
        files[name] = write_rankings(directory / f"{name}.trec", found)
    folder = import_runs(directory / "runs", files, collection, split="test", name=None, depth=20)
    quality_step(folder)
    return report_step(folder), folder


def _contradictions(report: Report, folder: RunFolder, dice: random.Random) -> Iterator[str]:
    advice = report.recommendation
    assert advice is not None
    assert advice.pipeline is not None
    better = {(pair.first, pair.second) for pair in report.pairs if pair.outcome == "better"}
    better |= {(pair.second, pair.first) for pair in report.pairs if pair.outcome == "worse"}
    worse = {name for name, _ in better}
    if set(advice.contenders) != set(report.pipelines) - worse or advice.pipeline in worse:
        yield f"contenders {advice.contenders} of {advice.pipeline}, shown worse {worse}"
    if any((other, pipeline) in better for pipeline, other in better):
        yield "two pipelines are each better than the other"
    ahead = next(pair for pair in report.pairs if {pair.first, pair.second} == {advice.pipeline, advice.runner_up})
    if ("do not show" in advice.text) != (ahead.outcome in ("same", "cannot tell")):
        yield f"the recommendation is of another verdict than {ahead.sentence}"
    page = (folder.path / "report.md").read_text().replace("**", "")
    if len(set(re.findall(r"[Aa]bout [\d,]+ more", page))) > 1:
        yield "two counts of missing queries"
    if advice.text not in page:
        yield "the page has another recommendation"
    if lacking := [p.sentence for p in report.pairs if p.first == report.set_against and p.sentence not in page]:
        yield f"the page lacks {lacking}"
    for pair in combinations(report.pipelines, 2):
        first, second = dice.sample(pair, 2)
        words = [f"{folder.path}:{name}" for name in (first, second)]
        (compared,) = compare(words, folder.runs, ComparisonSettings(no_worse_than=0.05)).pairs
        yield from _against_run(report.pairs, compared.verdict, first, second)
        low = compared.verdict.interval[0] if compared.verdict.interval else None
        gate = no_worse_gate(compared.verdict, 0.05)
        if compared.gate is None or not (compared.gate.passed == gate.passed == (low is not None and low > -0.05)):
            yield f"the gate of {second} against {first} and its interval"


def _against_run(pairs: Sequence[PairedComparison], found: PairedComparison, first: str, second: str) -> Iterator[str]:
    """Yields how `compare` of two pipelines differs from their verdict in the run."""
    pair = next(pair for pair in pairs if {pair.first, pair.second} == {first, second})
    turned = pair.first != first
    outcome = {"better": "worse", "worse": "better"}.get(pair.outcome, pair.outcome) if turned else pair.outcome
    interval = pair.interval and ((-pair.interval[1], -pair.interval[0]) if turned else pair.interval)
    if (found.outcome, found.p, found.interval, found.family) != (outcome, pair.p, interval, pair.family):
        yield f"compare {first} {second}: {found.sentence} beside {pair.sentence}"


def rates(folder: RunFolder) -> Iterator[tuple[str, ...]]:
    """Yields, by number of queries, how often any pair is shown, a pipeline is excluded, and the one that is most."""
    dice = np.random.default_rng(SEED)
    arms = [arm.name for arm in folder.read("rank.json", RankReport).arms]
    scores = np.array([[figures[METRIC] for _, figures in query_figures(folder, arm)] for arm in arms], dtype=float)
    centred = scores - scores.mean(axis=1, keepdims=True)
    places = list(combinations(range(len(arms)), 2))
    turned = [(second, first) for first, second in places]
    for queries in SAMPLES:
        shown, excluded = 0, [0] * len(arms)
        for _ in range(REPEATS):
            drawn = centred[:, dice.integers(0, scores.shape[1], queries)]
            found = calibrate([_by_query(drawn[second] - drawn[first]) for first, second in places], DRAWS)
            shown += any(pair.shown for pair in found)
            worse = [place[pair.mean > 0] for pair, place in zip(found, turned, strict=True) if pair.shown]
            for arm in set(worse):
                excluded[arm] += 1
        counts = (shown, sum(excluded) / len(arms), max(excluded))
        yield folder.experiment.dataset_name, str(queries), *(f"{count / REPEATS:.3f}" for count in counts)


def rare_wins() -> Iterator[tuple[str, ...]]:
    """Yields, by share of the queries that win by 0.5 and number of queries, how often an equal pair is shown."""
    dice = np.random.default_rng(SEED)
    for share in WINS:
        for queries in SAMPLES:
            wins = dice.random((REPEATS, queries)) < share
            values = np.where(wins, 0.5, -0.5 * share / (1 - share)) + dice.normal(0.0, 0.01, wins.shape)
            shown = sum(calibrate([_by_query(row)], DRAWS)[0].shown for row in values)
            yield f"{share:.0%} win by 0.5", str(queries), f"{shown / REPEATS:.3f}", "–", "–"


def _by_query(values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]") -> dict[str, float]:
    return {f"{at:04}": value for at, value in enumerate(values.tolist())}


if __name__ == "__main__":
    for row in (*(row for word in sys.argv[1:] for row in rates(RunFolder.open(Path(word)))), *rare_wins()):
        print("|", " | ".join(row), "|", flush=True)
