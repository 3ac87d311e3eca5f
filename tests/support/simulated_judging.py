"""Simulates two systems over queries whose grades are all known, none or an older system's documents judged."""

from dataclasses import dataclass

import numpy as np

QUERIES, CANDIDATES, TOP = 50, 60, 10
GRADES = (0.80, 0.10, 0.06, 0.04)  # shares of the candidates of a query
# How far a grade lifts a document's score, against noise of 1 that all systems share and noise of 1 of each system's
# own. A difference of 0.4 in it is about 0.05 in nDCG@10.
QUALITY, SPREAD = 1.0, 0.4

Lists = dict[str, tuple[str, ...]]
Known = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class SimulatedCollection:
    """Two rankings to compare, the judgments that an older system's top 10 got, and the grades of all documents."""

    first: Lists
    second: Lists
    judged: Known
    truth: Known


def simulated_collection(seed: int, with_older: bool, queries: int = QUERIES) -> SimulatedCollection:
    """Draws a collection. The second system is as much better or worse as a uniform draw within SPREAD says.

    `with_older`: the documents of an older system are judged; otherwise none is.
    """
    dice = np.random.default_rng(seed)
    qualities = {"first": QUALITY, "second": QUALITY + dice.uniform(-SPREAD, SPREAD), "older": QUALITY}
    found: dict[str, Lists] = {name: {} for name in qualities}
    truth: Known = {}
    for number in range(queries):
        query, names = f"q{number}", [f"d{at}" for at in range(CANDIDATES)]
        grades = dice.choice(len(GRADES), CANDIDATES, p=GRADES)
        shared = dice.normal(0.0, 1.0, CANDIDATES)
        truth[query] = dict(zip(names, grades.tolist(), strict=True))
        for name, quality in qualities.items():
            scores = quality * grades + shared + dice.normal(0.0, 1.0, CANDIDATES)
            found[name][query] = tuple(names[at] for at in np.argsort(-scores)[:TOP])
    known = found["older"] if with_older else {}
    judged = {query: {one: truth[query][one] for one in known.get(query, ())} for query in truth}
    return SimulatedCollection(found["first"], found["second"], judged, truth)
