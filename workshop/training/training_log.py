"""Reports the progress of a run: a progress bar, log.jsonl, and figures on held-out groups."""

import argparse
import itertools
import json
import random
import sys
import time
from collections.abc import Sequence

import torch
from torch.nn import functional
from tqdm import tqdm

from workshop.training.distillation_target import DistillationTarget
from workshop.training.groups import Group, epoch
from workshop.training.mined_questions import read_questions
from workshop.training.network import GroupScorer

# Held-out questions of each kind, whole and short, in every check.
CHECKED = 96


def held_out_figures(scorer: GroupScorer, groups: Sequence[Group], max_tokens: int) -> dict[str, float]:
    """Computes the mean reciprocal rank of the positives and the mean KL divergence from the target."""
    ranks, divergences = [], []
    for chunk in (groups[at : at + 16] for at in range(0, len(groups), 16)):
        with torch.inference_mode():
            answers = scorer(chunk, max_tokens)
        for group, logits in zip(chunk, answers, strict=True):
            if group.label is not None:
                ranks.append(1 / (1 + int((logits > logits[group.label]).sum())))
            target = torch.from_numpy(group.target).to(logits.device)
            divergences.append(float(functional.kl_div(functional.log_softmax(logits, 0), target, reduction="sum")))
    return {"mrr": round(sum(ranks) / len(ranks), 4), "divergence": round(sum(divergences) / len(divergences), 4)}


class TrainingLog:
    """Owns the progress bar and log.jsonl of a run."""

    def __init__(self, chosen: argparse.Namespace, scorer: GroupScorer, target: DistillationTarget) -> None:
        self._groups = {
            kind: _checked(chosen, target, short=short) for kind, short in (("whole", False), ("short", True))
        }
        self._scorer = scorer
        self._max_tokens = chosen.max_tokens
        self._file = (chosen.out / "log.jsonl").open("a")
        self._bar = tqdm(total=chosen.pairs // chosen.step, unit="step", file=sys.stdout, mininterval=30)
        self._losses: list[float] = []
        self._clock = time.monotonic()

    def write(self, **figures: object) -> None:
        self._file.write(json.dumps(figures) + "\n")
        self._file.flush()

    def step(self, step: int, loss: float) -> None:
        self._losses.append(loss)
        self._bar.update(step - self._bar.n)
        if step % 25 == 0:
            recent = self._losses[-25:]
            seconds = round(time.monotonic() - self._clock, 1)
            self.write(step=step, loss=round(sum(recent) / len(recent), 4), seconds=seconds)

    def check(self, step: int) -> None:
        for kind, groups in self._groups.items():
            self.write(step=step, questions=kind, **held_out_figures(self._scorer, groups, self._max_tokens))


def _checked(chosen: argparse.Namespace, target: DistillationTarget, *, short: bool) -> list[Group]:
    """Returns the held-out groups of one kind, the same in every check and run."""
    lines = read_questions(chosen.work / "groups.jsonl", held_out=True, short=short)
    return list(itertools.islice(epoch(lines, chosen.group, target, random.Random(1)), CHECKED))
