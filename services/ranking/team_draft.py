"""Merges two rankings by team draft, so that clicks on the merged one compare them. Pure."""

import random
from collections.abc import Sequence


def team_draft(
    first: Sequence[str], second: Sequence[str], names: tuple[str, str], depth: int, seed: bytes
) -> list[tuple[str, str | None]]:
    """Returns at most `depth` ids, best first, each with the name of its team (Radlinski, Kurup and Joachims 2008,
    section 3.2).

    The hits that both rankings begin with, at the same ranks, have no team: a click on them prefers neither. The same
    seed gives the same picks, and a larger depth only adds to them.
    """
    coins = random.Random(seed)
    shared = 0
    while shared < min(len(first), len(second), depth) and first[shared] == second[shared]:
        shared += 1
    merged: dict[str, str | None] = dict.fromkeys(first[:shared])
    places, sizes = [shared, shared], [0, 0]
    while len(merged) < depth:
        behind = sizes[0] - sizes[1]
        team = int(behind > 0) if behind else coins.getrandbits(1)
        for picking in (team, 1 - team):
            ranking = (first, second)[picking]
            while places[picking] < len(ranking) and ranking[places[picking]] in merged:
                places[picking] += 1
            if places[picking] < len(ranking):
                merged[ranking[places[picking]]] = names[picking]
                sizes[picking] += 1
                break
        else:
            break
    return list(merged.items())
