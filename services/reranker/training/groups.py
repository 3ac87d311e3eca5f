"""Lines of groups.jsonl to what one step learns from: which candidates, which labels, what the teachers say."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

# Softmax temperatures of the teachers' cosines, in the order of mine.py: bge's lie closer together than MiniLM's.
TEMPERATURES = (0.02, 0.05)
# A candidate that a teacher puts this close to the positive may well be relevant: no label is claimed for it.
TOO_CLOSE = 0.95


class Line(TypedDict):
    """One line of groups.jsonl: a question with its candidates (places of passages), best known first.

    `bm25` has a score or None for each candidate, `teachers` one list of cosines a teacher.
    """

    query: str
    file: str
    held_out: bool
    short: bool
    relevant: list[int]
    candidates: list[int]
    bm25: list[float | None]
    teachers: list[list[float]]


@dataclass(frozen=True, slots=True)
class Group:
    """One question with some of its candidates.

    `label` is the place of the positive among them (None: nothing is known, the teachers alone speak), `doubtful` the
    places left out of the loss on the label, `target` the teachers' distribution over the candidates.
    """

    query: str
    candidates: tuple[int, ...]
    label: int | None
    doubtful: tuple[int, ...]
    target: NDArray[np.float32]


def read_lines(file: Path, *, held_out: bool, short: bool) -> list[Line]:
    """The questions that are (or are not) held out, and are (or are not) short queries."""
    with file.open() as lines:
        parsed: Iterator[Line] = map(json.loads, lines)
        return [line for line in parsed if line["held_out"] == held_out and line["short"] == short]


def epoch(lines: Sequence[Line], size: int, draw: random.Random) -> Iterator[Group]:
    """One group of `size` from every line, in random order; those with too few candidates are passed over."""
    order = list(range(len(lines)))
    draw.shuffle(order)
    for place in order:
        made = drawn(lines[place], size, draw)
        if made is not None:
            yield made


def drawn(line: Line, size: int, draw: random.Random) -> Group | None:
    """`size` candidates of one line: half from the head of BM25, the rest from the teachers' nearest and the tail."""
    relevant = [place for place, one in enumerate(line["candidates"]) if one in set(line["relevant"])]
    others = [place for place in range(len(line["candidates"])) if place not in set(relevant)]
    found = {place: score for place, score in enumerate(line["bm25"]) if score is not None}
    ranked = sorted((place for place in others if place in found), key=lambda place: -found[place])
    logits = np.mean([np.array(of) / t for of, t in zip(line["teachers"], TEMPERATURES, strict=True)], axis=0)
    nearest = sorted(others, key=lambda place: -logits[place])[:20]
    wanted = size - bool(relevant)
    chosen: list[int] = []
    for pool, share in ((ranked[:30], wanted // 2), (nearest, wanted // 4 + 1), (others, wanted)):
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
    values = logits[chosen]
    target = np.exp(values - values.max())
    return Group(
        line["query"],
        tuple(line["candidates"][place] for place in chosen),
        label,
        doubtful,
        (target / target.sum()).astype(np.float32),
    )
