"""Samples training groups from mined questions: which candidates, which label, which target."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workshop.training.distillation_target import DistillationTarget
from workshop.training.mined_questions import MinedQuestion

# A candidate whose cosine is above this share of the positive's may be relevant: it gets no label.
DOUBTFUL_ABOVE = 0.95


@dataclass(frozen=True, slots=True)
class Group:
    """One question with some of its candidates.

    `label` is the place of the positive among them (None: unlabelled, the loss is on the target alone), `doubtful` the
    places left out of the label loss, `target` the distribution over the candidates to learn.
    """

    query: str
    candidates: tuple[int, ...]
    label: int | None
    doubtful: tuple[int, ...]
    target: NDArray[np.float32]


def epoch(
    lines: Sequence[MinedQuestion], size: int, target: DistillationTarget, draw: random.Random
) -> Iterator[Group]:
    """Yields one group of `size` from every line, in random order; skips lines with too few candidates."""
    order = list(range(len(lines)))
    draw.shuffle(order)
    for place in order:
        made = sample_group(lines[place], size, target, draw)
        if made is not None:
            yield made


def sample_group(line: MinedQuestion, size: int, target: DistillationTarget, draw: random.Random) -> Group | None:
    """Samples `size` candidates: half from the head of BM25, the rest from the best of the target and the tail."""
    relevant = [place for place, passage in enumerate(line["candidates"]) if passage in set(line["relevant"])]
    others = [place for place in range(len(line["candidates"])) if place not in set(relevant)]
    scores = {place: score for place, score in enumerate(line["bm25"]) if score is not None}
    ranked = sorted((place for place in others if place in scores), key=lambda place: -scores[place])
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
            for place, candidate in enumerate(chosen)
            if place and any(of[candidate] > DOUBTFUL_ABOVE * of[positive] for of in line["teachers"][1:])
        )
    odds = np.exp(logits[chosen] - logits[chosen].max())
    return Group(
        line["query"],
        tuple(line["candidates"][place] for place in chosen),
        label,
        doubtful,
        (odds / odds.sum()).astype(np.float32),
    )
