"""Random and adversarial rankings with judgments, for tests of metrics."""

import random
from collections.abc import Iterator

Judgments = dict[str, dict[str, int]]
Scored = dict[str, list[tuple[str, float]]]


def ordered(hits: dict[str, float]) -> list[tuple[str, float]]:
    """Orders hits as a run file of another tool is read: by descending score, then ascending id."""
    return sorted(hits.items(), key=lambda hit: (-hit[1], hit[0]))


def random_cases() -> Iterator[tuple[Judgments, dict[str, list[str]]]]:
    """Yields seeded collections: graded, some queries without hits or positives, ids of every length."""
    for seed in range(3):
        dice = random.Random(seed)
        names = [f"{'d' * dice.randint(1, 9)}{number}" for number in range(300)]
        queries = [f"q{number}" for number in range(16)]
        judgments = {
            query: {name: dice.choice([0, 0, 1, 1, 2, 3]) for name in dice.sample(names, dice.randint(1, 150))}
            for query in queries
        }
        yield judgments, {query: dice.sample(names, dice.choice([0, 1, 5, 50, 200])) for query in queries}


def adversarial_cases() -> dict[str, tuple[Judgments, Scored]]:
    """Returns collections by the name of what is wrong with their rankings."""
    dice = random.Random(20_250_601)
    names = [f"d{number:03}" for number in range(150)]
    judgments = {
        f"q{number}": {name: dice.choice([-1, 0, 0, 1, 2, 3]) for name in dice.sample(names, dice.randint(3, 60))}
        for number in range(12)
    }
    judgments["without-positive"] = dict.fromkeys(names[:7], 0)
    judgments["all-relevant"] = dict.fromkeys(names[:30], 1)
    found = {query: dice.sample(names, dice.randint(20, 120)) for query in judgments}

    def ideal(query: str) -> list[str]:
        return sorted(judgments[query], key=lambda name: (-judgments[query][name], name))

    def falling(rankings: dict[str, list[str]]) -> Scored:
        return {query: [(name, -float(at)) for at, name in enumerate(ranking)] for query, ranking in rankings.items()}

    def scored(scores: list[float]) -> Scored:
        return {query: ordered({name: dice.choice(scores) for name in ranking}) for query, ranking in found.items()}

    rankings: dict[str, Scored] = {
        "random": falling(found),
        "constant scores": scored([1.0]),
        "constant scores of 0": scored([0.0]),
        "ties everywhere": scored([1.5, 1.0, 0.5, -1.0]),
        "scores that float32 cannot tell apart": scored([20.0000001, 20.00000012]),
        "huge and infinite scores": scored([float("inf"), 1e308, 0.0, -1e308]),
        "ideal": falling({query: ideal(query) for query in judgments}),
        "reversed": falling({query: ideal(query)[::-1] for query in judgments}),
        "empty": {query: [] for query in judgments},
        "a single hit": falling({query: ranking[:1] for query, ranking in found.items()}),
        "only the best": falling({query: ideal(query)[:1] for query in judgments}),
        "only unjudged": falling({query: [f"x{number}" for number in range(40)] for query in judgments}),
        "queries missing": falling({query: found[query] for query in list(found)[::3]}),
        "no query answered": {},
        "strangers": falling(found | {"stranger": names[:20], "another": names[20:40]}),
    }
    return {what: (judgments, of_all) for what, of_all in rankings.items()}
