"""`python -m workshop.training.train`: trains a cross-encoder on groups.jsonl.

Loss of a group: listwise cross-entropy on the label, Kullback-Leibler divergence from the target, and
a little binary cross-entropy that keeps the scores around zero. Runs on a GPU when there is one, otherwise on the
cores in bf16. Resumes from the newest checkpoint of `--out`; the same seed gives the same groups in the same order.
"""

import argparse
import ctypes
import itertools
import json
import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, distributed, multiprocessing, nn
from torch.nn import functional

from workshop.training.distillation_target import DistillationTarget, fit_target
from workshop.training.groups import Group, epoch
from workshop.training.mined_questions import MinedQuestion, read_questions
from workshop.training.network import GroupScorer, model_from
from workshop.training.training_log import TrainingLog


def loss_of(logits: Tensor, group: Group, label_share: float) -> Tensor:
    target = torch.from_numpy(group.target).to(logits.device)
    divergence = functional.kl_div(functional.log_softmax(logits, 0), target, reduction="sum")
    if group.label is None:
        return divergence
    kept = [place for place in range(len(logits)) if place not in group.doubtful]
    sure = logits[kept]
    listwise = functional.cross_entropy(sure[None], torch.tensor([kept.index(group.label)], device=logits.device))
    binary = functional.binary_cross_entropy_with_logits(sure, (torch.tensor(kept) == group.label).float().to(sure))
    return label_share * listwise + (1 - label_share) * divergence + 0.05 * binary


def batches(
    lines: Sequence[MinedQuestion],
    short: Sequence[MinedQuestion],
    target: DistillationTarget,
    share: float,
    size: int,
    pairs: int,
    seed: int,
) -> Iterator[list[Group]]:
    """Yields steps of `pairs` pairs endlessly, `share` of their groups short queries; the same for the same seed."""

    def endless(of: Sequence[MinedQuestion]) -> Iterator[Group]:
        draw = random.Random(seed)
        return itertools.chain.from_iterable(epoch(of, size, target, draw) for _ in itertools.count())

    whole_groups, short_groups = endless(lines), endless(short)
    groups = max(1, pairs // size)
    of_short = round(share * groups)
    while True:
        whole = itertools.islice(whole_groups, groups - of_short)
        yield [*whole, *itertools.islice(short_groups, of_short)]


def shard(groups: Sequence[Group], passages: Sequence[str], workers: int, rank: int) -> list[Group]:
    """Returns the groups of worker `rank`: dealt by length, so that all workers finish at about the same time."""
    order = sorted(groups, key=lambda group: -sum(len(passages[passage]) for passage in group.candidates))
    turns = itertools.cycle([*range(workers), *reversed(range(workers))])
    return [group for group, turn in zip(order, turns, strict=False) if turn == rank]


def all_reduce_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Sums the gradients of all workers in one all-reduce."""
    gradients = [
        parameter.grad if parameter.grad is not None else torch.zeros_like(parameter) for parameter in parameters
    ]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    distributed.all_reduce(flat)
    for parameter, gradient in zip(
        parameters, flat.split([parameter.numel() for parameter in parameters]), strict=True
    ):
        parameter.grad = gradient.view_as(parameter)


def learn(rank: int, workers: int, chosen: argparse.Namespace) -> None:
    """Trains as one worker of a run; rank 0 also logs, evaluates and saves."""
    torch.manual_seed(chosen.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if workers > 1:
        torch.set_num_threads(1)
        meeting = (chosen.out / "meeting").resolve()
        distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=workers)
    model = model_from(chosen.start / "model.onnx", chosen.layers).to(device)
    passages = json.loads((chosen.work / "passages.json").read_text())
    tokenizer = Tokenizer.from_file(str(chosen.start / "tokenizer.json"))
    tokenizer.no_padding()
    scorer = GroupScorer(model, tokenizer, passages)
    lines, short = (
        read_questions(chosen.work / "groups.jsonl", held_out=False, short=brief) for brief in (False, True)
    )
    target = fit_target(lines)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learned, lr=chosen.rate, weight_decay=0.01)
    steps = chosen.pairs // chosen.step
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / (0.04 * steps), max(0.02, 1 - step / steps))
    )
    averaging = 0.6 * steps  # from then on weights are averaged
    average = {name: torch.zeros_like(value) for name, value in model.state_dict().items() if value.is_floating_point()}
    averaged = begun = 0
    checkpoint = chosen.out / "checkpoint.pt"
    if checkpoint.exists():
        kept = torch.load(checkpoint, map_location=device)
        model.load_state_dict(kept["model"])
        optimiser.load_state_dict(kept["optimiser"])
        schedule.load_state_dict(kept["schedule"])
        average, averaged, begun = kept["average"], kept["averaged"], kept["step"]
    log = TrainingLog(chosen, scorer, target) if rank == 0 else None
    if log and not begun:
        arguments = {key: str(value) for key, value in vars(chosen).items()}
        log.write(step=0, arguments=arguments, lines=len(lines), short=len(short), target=target.shares)
        log.check(0)
    stream = batches(lines, short, target, chosen.short_share, chosen.group, chosen.step, chosen.seed)
    for step, groups in enumerate(itertools.islice(stream, chosen.after // chosen.step, None), start=1):
        if step > steps:
            break
        if step <= begun:
            continue
        max_tokens = chosen.max_tokens if step < 0.8 * steps else chosen.last_tokens
        mine = shard(groups, passages, workers, rank)
        optimiser.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=device)
        if mine:
            parts = [
                loss_of(logits, group, chosen.label_share)
                for logits, group in zip(scorer(mine, max_tokens), mine, strict=True)
            ]
            loss = torch.stack(parts).sum() / len(groups)
            loss.backward()
        if workers > 1:
            all_reduce_gradients(learned)
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
        schedule.step()
        if step <= averaging:
            averaged = 0
        elif step % 5 == 0:
            averaged += 1
            for name, value in model.state_dict().items():
                if name in average:
                    average[name] += (value - average[name]) / averaged
        if step % 20 == 0 and sys.platform == "linux":
            # With the raised thresholds (README) the allocator keeps the gaps between freed tensors of odd sizes.
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        if log:
            log.step(step, float(loss.detach()) * workers)
            if step % 100 == 0 or step == steps:
                torch.save(
                    {
                        "model": model.state_dict(),
                        "optimiser": optimiser.state_dict(),
                        "schedule": schedule.state_dict(),
                        "average": average,
                        "averaged": averaged,
                        "step": step,
                    },
                    checkpoint.with_suffix(".new"),
                )
                checkpoint.with_suffix(".new").replace(checkpoint)
                log.check(step)
    if log:
        if averaged:
            model.load_state_dict(model.state_dict() | average)
        log.write(averaged=averaged)
        log.check(steps)
        weights = {name: value.contiguous().cpu() for name, value in average.items()} if averaged else {}
        save_file(weights or model.state_dict(), chosen.out / "model.safetensors")
    if workers > 1:
        distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--work", type=Path, default=Path(".cache/reranker-training"))
    parser.add_argument("--start", type=Path, default=Path(".models/all-MiniLM-L6-v2"), help="a folder with model.onnx")
    parser.add_argument("--out", type=Path, required=True, help="checkpoints and the result")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--pairs", type=int, default=200_000, help="pairs to learn from in all")
    parser.add_argument("--after", type=int, default=0, help="pairs of this seed that --start has already learned from")
    parser.add_argument("--group", type=int, default=8, help="candidates a question")
    parser.add_argument("--step", type=int, default=96, help="pairs a step")
    parser.add_argument("--rate", type=float, default=4e-5, help="peak learning rate, linear to 0")
    parser.add_argument(
        "--label-share", type=float, default=0.5, help="of the label in the loss; the teachers' is the rest"
    )
    parser.add_argument("--short-share", type=float, default=0.25, help="of the questions of a step: short queries")
    parser.add_argument("--max-tokens", type=int, default=192)
    parser.add_argument("--last-tokens", type=int, default=256, help="token limit of the last fifth")
    parser.add_argument("--seed", type=int, default=17)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    # One process of one thread a core: processes synchronise once a step, threads of one process in every operator,
    # where each waits for a core that another job has taken.
    workers = 1 if torch.cuda.is_available() else len(os.sched_getaffinity(0))
    (chosen.out / "meeting").unlink(missing_ok=True)
    if workers == 1:
        learn(0, 1, chosen)
    else:
        # Unwinds on SIGTERM, so that the workers end as well.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        multiprocessing.spawn(learn, args=(workers, chosen), nprocs=workers, daemon=True)


if __name__ == "__main__":
    main()
