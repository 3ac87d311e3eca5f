"""`python -m workshop.training.weigh --model DIR`: chooses the model's rerank weight on held-out questions.

The first stage of a question is its list over the whole training corpus, from BM25 or from BM25 and dense fused by
z-scores. The model re-orders its head at each weight, as the gateway's rerank stage does (z-scores of both, per query).
The mean of the files' nDCG@10 decides, so that no file counts for its size. No test collection is read.
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

from deploy.models.prepare import prepare
from services.inference.digests import file_sha256
from services.inference.glibc_memory import set_process_options
from services.inference.open_model import Engine
from services.inference.pair_scorer import PairScorer
from services.inference.profiles import CrossEncoderProfile
from workshop.training.mined_questions import MinedQuestion, read_questions

WEIGHTS = tuple(round(0.05 * step, 2) for step in range(21))


def z_scores(values: Sequence[float]) -> NDArray[np.float64]:
    """Returns (x - mean) / standard deviation; zeros when all values are equal."""
    array = np.asarray(values, dtype=np.float64)
    spread = array.std()
    return (array - array.mean()) / spread if spread > 0 else np.zeros_like(array)


def ndcg(order: Sequence[int], relevant: set[int], depth: int = 10) -> float:
    """Computes binary nDCG@depth of a list of passages."""
    gain = sum(1 / math.log2(rank + 1) for rank, passage in enumerate(order[:depth], start=1) if passage in relevant)
    return gain / sum(1 / math.log2(rank + 1) for rank in range(1, min(depth, len(relevant)) + 1))


def first_stage(line: MinedQuestion, kind: str) -> list[tuple[float, int]]:
    """Returns (score, passage), best first: `bm25`, or `hybrid` as in `gateway/pipelines/hybrid-rerank.yaml`.

    The dense leg is all-MiniLM-L6-v2, the last of the teachers, over the candidates: exact for its 30 nearest.
    """
    lexical = [
        (score, passage) for passage, score in zip(line["candidates"], line["bm25"], strict=True) if score is not None
    ]
    if kind == "bm25":
        return best_first(lexical)
    dense = list(zip(line["teachers"][-1], line["candidates"], strict=True))
    fused = dict.fromkeys(line["candidates"], 0.0)
    for leg in (lexical, dense):
        values = dict(zip((passage for _, passage in leg), z_scores([score for score, _ in leg]).tolist(), strict=True))
        least = min(values.values(), default=0.0)  # of a passage missing from the leg
        for passage in fused:
            fused[passage] += values.get(passage, least)
    return best_first([(score, passage) for passage, score in fused.items()])


def best_first(scored: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    return sorted(scored, key=lambda pair: (-pair[0], pair[1]))


async def gains_by_weight(
    scorer: PairScorer, lines: Sequence[MinedQuestion], passages: Sequence[str], depth: int, first: str
) -> NDArray[np.float64]:
    """Computes nDCG@10 [questions, weights]; weight 0 is the first stage alone."""
    table = np.zeros((len(lines), len(WEIGHTS)))
    for row, line in zip(table, tqdm(lines, unit="query", mininterval=5), strict=True):
        ranked = first_stage(line, first)
        head = [passage for _, passage in ranked[:depth]]
        before = z_scores([score for score, _ in ranked[:depth]])
        own = z_scores(await scorer.score(line["query"], [passages[passage] for passage in head]))
        for place, weight in enumerate(WEIGHTS):
            order = np.argsort(-(weight * own + (1 - weight) * before), kind="stable")
            row[place] = ndcg([head[at] for at in order], set(line["relevant"]))
    return table


def best_weights(tables: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    """Returns the best weight and the lowest within one standard error; one table [questions, weights] a file.

    The lower one is safer (one-standard-error rule, Breiman et al. 1984): the questions come from files that the model
    was trained on, which favours it.
    """
    mean = np.mean([table.mean(axis=0) for table in tables], axis=0)
    best = int(mean.argmax())
    lost = [table[:, [best]] - table for table in tables]
    error = np.sqrt(sum(of.var(axis=0) / len(of) for of in lost)) / len(lost)
    safe = int(np.argmax(mean >= mean[best] - error))
    return WEIGHTS[best], WEIGHTS[safe]


def gains_as_json(values: NDArray[np.float64]) -> str:
    return json.dumps({f"{weight:g}": round(float(value), 4) for weight, value in zip(WEIGHTS, values, strict=True)})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="a folder with model.onnx and tokenizer.json")
    parser.add_argument("--work", type=Path, default=Path(".cache/reranker-training"))
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--queries", type=int, default=40, help="of each file")
    parser.add_argument("--first", choices=("bm25", "hybrid"), default="bm25", help="the list that is re-ordered")
    parser.add_argument(
        "--questions", choices=("all", "whole", "short"), default="all", help="short: without their common words"
    )
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--precision", choices=("fp32", "int8-weights", "int8-static"), default="int8-weights")
    chosen = parser.parse_args()
    passages = json.loads((chosen.work / "passages.json").read_text())
    by_file: dict[str, list[MinedQuestion]] = {}
    for kind in ("whole", "short") if chosen.questions == "all" else (chosen.questions,):
        for line in read_questions(chosen.work / "groups.jsonl", held_out=True, short=kind == "short"):
            if line["relevant"]:
                by_file.setdefault(f"{line['file']}, {kind}", []).append(line)
    profile = _profile(chosen.model, chosen.max_tokens, chosen.precision)
    prepare(profile, chosen.model)
    set_process_options()
    scorer = PairScorer(profile, chosen.model, Engine())
    tables = []
    for file, lines in sorted(by_file.items()):
        sample = random.Random(1).sample(lines, min(chosen.queries, len(lines)))
        tables.append(asyncio.run(gains_by_weight(scorer, sample, passages, chosen.depth, chosen.first)))
        print(file, len(sample), gains_as_json(tables[-1].mean(axis=0)), flush=True)
    print("mean", gains_as_json(np.mean([table.mean(axis=0) for table in tables], axis=0)))
    best, safe = best_weights(tables)
    print(f"best weight {best:g}, the lowest within one standard error of it {safe:g}")


def _profile(folder: Path, max_tokens: int, precision: str) -> CrossEncoderProfile:
    """Builds a models.yaml entry for a folder that has none."""
    return CrossEncoderProfile.model_validate(
        {
            "name": folder.name,
            "kind": "cross-encoder",
            "default": False,
            "trained_on": "its card does not say",
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
