"""Lines of groups.jsonl to what one step learns from: which candidates, which label, which target."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workshop.training.distillation_target import Target
from workshop.training.mined_questions import Line

# A candidate that a teacher puts this close to the positive may well be relevant: no label is claimed for it.
TOO_CLOSE = 0.95


@dataclass(frozen=True, slots=True)
class Group:
    """One question with some of its candidates.

    `label` is the place of the positive among them (None: nothing is known, the target alone speaks), `doubtful` the
    places left out of the loss on the label, `target` the distribution over the candidates to come close to.
    """

    query: str
    candidates: tuple[int, ...]
    label: int | None
    doubtful: tuple[int, ...]
    target: NDArray[np.float32]


def epoch(lines: Sequence[Line], size: int, target: Target, draw: random.Random) -> Iterator[Group]:
    """One group of `size` from every line, in random order; those with too few candidates are passed over."""
    order = list(range(len(lines)))
    draw.shuffle(order)
    for place in order:
        made = drawn(lines[place], size, target, draw)
        if made is not None:
            yield made


def drawn(line: Line, size: int, target: Target, draw: random.Random) -> Group | None:
    """`size` candidates of one line: half from the head of BM25, the rest from the best of the target and the tail."""
    relevant = [place for place, one in enumerate(line["candidates"]) if one in set(line["relevant"])]
    others = [place for place in range(len(line["candidates"])) if place not in set(relevant)]
    found = {place: score for place, score in enumerate(line["bm25"]) if score is not None}
    ranked = sorted((place for place in others if place in found), key=lambda place: -found[place])
    logits = target.logits(line)
    best = sorted(others, key=lambda place: -logits[place])[:20]
    wanted = size - bool(relevant)
    chosen: list[int] = []
    for pool, share in ((ranked[:30], wanted // 2), (best, wanted // 4 + 1), (others, wanted)):
        free = [place for place in pool if place not in chosen]
        chosen += draw.sample(free, min(share, len(free), wanted - len(chosen)))
    if len(chosen) < wanted:
        return None
    label = None
    doubtful: tuple[int, ...] = ()
    if relevant:
        positive = draw.choice(relevant)
        chosen = [positive, *chosen]
        label = 0
        doubtful = tuple(
            place
            for place, one in enumerate(chosen)
            if place and any(of[one] > TOO_CLOSE * of[positive] for of in line["teachers"][1:])
        )
    odds = np.exp(logits[chosen] - logits[chosen].max())
    return Group(
        line["query"],
        tuple(line["candidates"][place] for place in chosen),
        label,
        doubtful,
        (odds / odds.sum()).astype(np.float32),
    )
