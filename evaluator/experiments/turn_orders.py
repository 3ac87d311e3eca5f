"""Decides in which order arms take turns, so that what one leaves behind falls on all the others alike. Pure.

The order is a carry-over design (Williams 1949, Aust. J. Chem. 2, 149) of any length: it is built arm by arm, not taken
from a square, so that the step from one turn to the next is balanced too.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

Turn = list[tuple[int, str]]  # arms, by number, and the query that each is asked


def balanced_turns(arms: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Yields turns without end, each with every arm once, by number.

    After any number of turns every arm has followed every other one equally often, but for three times at most, and
    none has followed itself (a single one has to). In turns of more than two arms all come equally early on average.
    """
    dice = random.Random(seed)
    followed: Counter[tuple[int, int]] = Counter()  # by the arm before and the arm
    places: Counter[int] = Counter()
    before = -1
    while True:
        turn: list[int] = []
        while len(turn) < arms:
            left = [arm for arm in range(arms) if arm not in turn and (arm != before or arms == 1)]
            arm = min(left, key=lambda arm: (followed[before, arm], -places[arm], dice.random()))
            followed[before, arm] += 1
            places[arm] += len(turn)
            turn.append(arm)
            before = arm
        yield tuple(turn)


def query_turns(queries: Sequence[str], arms: int, seed: int, *, apart: bool = False) -> Iterator[Turn]:
    """Yields the turns of all queries: each query through every arm, in balanced order.

    The queries are in a seeded order: in files, alike ones often stand together. A turn asks one query, so that what
    happens on the machine meets every arm alike; `apart`, where services may answer from caches, asks each arm another
    one, so that none profits from cache entries that another has just made.
    """
    n, queries = len(queries), random.Random(seed).sample(queries, len(queries))
    for number, turn in zip(range(n), balanced_turns(arms, seed), strict=False):
        yield [(arm, queries[(number + arm * n // arms) % n if apart else number]) for arm in turn]
