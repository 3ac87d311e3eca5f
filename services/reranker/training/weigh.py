"""`python -m services.reranker.training.weigh --model DIR`: how much of a model to mix in, on held-out questions.

Every held-out question keeps its first-stage list over the whole training corpus, of BM25 or of BM25 and dense fused
by reciprocal ranks; the model re-orders the head of it at each weight, as the rerank stage of the gateway does
(z-scores of both, per query). The mean of the files' nDCG@10 decides, so that no file counts for its size. No test
collection is read.
"""

import argparse
import asyncio
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from services.inference.digests import file_sha256
from services.inference.model import Engine
from services.inference.profiles import CrossEncoderProfile
from services.inference.score import PairScorer
from services.reranker.training.groups import Line, read_lines

RANK_CONSTANT = 60  # of the fuse stage of hybrid-rerank.yaml
WEIGHTS = tuple(round(0.05 * step, 2) for step in range(21))


def z(values: Sequence[float]) -> NDArray[np.float64]:
    """(x - mean) / standard deviation; zeros when all are equal."""
    array = np.asarray(values, dtype=np.float64)
    spread = array.std()
    return (array - array.mean()) / spread if spread > 0 else np.zeros_like(array)


def ndcg(order: Sequence[int], relevant: set[int], depth: int = 10) -> float:
    """Binary nDCG@depth of a list of passages."""
    gain = sum(1 / math.log2(rank + 1) for rank, one in enumerate(order[:depth], start=1) if one in relevant)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(depth, len(relevant)) + 1))


def first_stage(line: Line, kind: str) -> list[tuple[float, int]]:
    """(score, passage) of the first stage, best first: `bm25`, or `hybrid` as `gateway/pipelines/hybrid-rerank.yaml`.

    The dense leg is all-MiniLM-L6-v2, the last of the teachers, over the candidates: exact for its 30 nearest.
    """
    lexical = [(score, one) for one, score in zip(line["candidates"], line["bm25"], strict=True) if score is not None]
    if kind == "bm25":
        return best_first(lexical)
    dense = list(zip(line["teachers"][-1], line["candidates"], strict=True))
    fused: dict[int, float] = {}
    for leg in (lexical, dense):
        for rank, (_, one) in enumerate(best_first(leg), start=1):
            fused[one] = fused.get(one, 0.0) + 1 / (RANK_CONSTANT + rank)
    return best_first([(score, one) for one, score in fused.items()])


def best_first(scored: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    return sorted(scored, key=lambda pair: (-pair[0], pair[1]))


async def figures(
    scorer: PairScorer, lines: Sequence[Line], passages: Sequence[str], depth: int, first: str
) -> dict[str, float]:
    """nDCG@10 by weight (0 is the first stage alone), the mean over the questions of `lines`."""
    gains = np.zeros(len(WEIGHTS))
    for line in tqdm(lines, unit="query", mininterval=5):
        ranked = first_stage(line, first)
        head = [one for _, one in ranked[:depth]]
        before = z([score for score, _ in ranked[:depth]])
        own = z([float(score) for score in await scorer.score(line["query"], [passages[one] for one in head])])
        for place, weight in enumerate(WEIGHTS):
            order = np.argsort(-(weight * own + (1 - weight) * before), kind="stable")
            gains[place] += ndcg([head[at] for at in order], set(line["relevant"]))
    return {f"{weight:g}": round(float(gain) / len(lines), 4) for weight, gain in zip(WEIGHTS, gains, strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a folder with model.onnx and tokenizer.json")
    parser.add_argument("--work", type=Path, default=Path(".cache/reranker-training"))
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--queries", type=int, default=40, help="of each file")
    parser.add_argument("--first", choices=("bm25", "hybrid"), default="bm25", help="the list that is re-ordered")
    parser.add_argument("--short", action="store_true", help="the questions without their common words")
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--precision", choices=("fp32", "int8-weights", "int8-static"), default="int8-weights")
    chosen = parser.parse_args()
    passages = json.loads((chosen.work / "passages.json").read_text())
    by_file: dict[str, list[Line]] = {}
    for line in read_lines(chosen.work / "groups.jsonl", held_out=True, short=chosen.short):
        if line["relevant"]:
            by_file.setdefault(line["file"], []).append(line)
    scorer = PairScorer(_profile(chosen.model, chosen.max_tokens, chosen.precision), chosen.model, Engine())
    table: dict[str, dict[str, float]] = {}
    for file, lines in sorted(by_file.items()):
        sample = random.Random(1).sample(lines, min(chosen.queries, len(lines)))
        table[file] = asyncio.run(figures(scorer, sample, passages, chosen.depth, chosen.first))
        print(file, len(sample), json.dumps(table[file]), flush=True)
    mean = {key: round(sum(of[key] for of in table.values()) / len(table), 4) for key in next(iter(table.values()))}
    print("mean", json.dumps(mean))
    print("best weight", max(mean, key=lambda key: mean[key]))


def _profile(folder: Path, max_tokens: int, precision: str) -> CrossEncoderProfile:
    """A models.yaml entry for a folder that has none yet."""
    return CrossEncoderProfile.model_validate(
        {
            "name": folder.name,
            "kind": "cross-encoder",
            "default": False,
            "activation": "none",
            "weight": 1.0,
            "max_tokens": max_tokens,
            "precision": precision,
            "session_entries": {"session.disable_quant_qdq": "1"} if precision == "int8-weights" else {},
            "files": {name: file_sha256(folder / name) for name in ("model.onnx", "tokenizer.json", "config.json")},
            "sources": [{"kind": "directory", "path": str(folder)}],
        }
    )


if __name__ == "__main__":
    main()
