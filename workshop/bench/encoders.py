"""`python -m workshop.bench.encoders DATASET...`: compares encoders of `.models`, one after the other.

Prints nDCG@10 of exact cosine search over whole collections, and the CPU milliseconds of a query and of a document.
"""

import argparse
import asyncio
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evaluator.datasets.reader import Dataset, read_dataset
from services.inference.process_options import set_process_options
from services.inference.profiles import MODELS_FILE, load_encoder
from services.inference.text_encoder import TextEncoder

BATCH = 64
DEPTH = 10


@dataclass(frozen=True, slots=True)
class Encoded:
    """The vectors of a collection, and the CPU seconds of all threads that they took."""

    documents: NDArray[np.float32]  # [documents, dimension]
    queries: NDArray[np.float32]  # [queries, dimension]
    document_s: float
    query_s: float


async def encoded(encoder: TextEncoder, texts: Sequence[str], queries: Sequence[str]) -> Encoded:
    """Encodes all documents in batches, then the queries one after the other."""
    began = time.process_time()
    documents = [await encoder.encode_passages(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
    between = time.process_time()
    vectors = [await encoder.encode_query(query) for query in queries]
    return Encoded(np.vstack(documents), np.vstack(vectors), between - began, time.process_time() - between)


def mean_ndcg(
    documents: NDArray[np.float32],
    queries: NDArray[np.float32],
    ids: Sequence[str],
    judged: Sequence[Mapping[str, int]],
) -> float:
    """Computes the mean nDCG@10 of exact search, ties by position (trec_eval's formula)."""
    found = []
    for vector, grades in zip(queries, judged, strict=True):
        order = np.argsort(-(documents @ vector), kind="stable")[:DEPTH]
        gains = [grades.get(ids[place], 0) for place in order]
        best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:DEPTH]
        found.append(_discounted(gains) / _discounted(best) if best else 0.0)
    return statistics.mean(found)


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))


async def compare(dataset: Dataset, models: Sequence[str]) -> None:
    """Prints the rows of one collection."""
    documents = list(dataset.documents())
    ids = [one.id for one in documents]
    texts = [f"{one.title} {one.text}".strip() for one in documents]
    asked = list(dataset.judgments)
    judged = [dataset.judgments[query] for query in asked]
    for name in models:
        encoder = TextEncoder(load_encoder(MODELS_FILE, name), Path(".models", name))
        found = await encoded(encoder, texts, [dataset.queries[query] for query in asked])
        await encoder.close()
        ndcg = mean_ndcg(found.documents, found.queries, ids, judged)
        costs = found.query_s / len(asked) * 1000, found.document_s / len(texts) * 1000
        sys.stdout.write(f"| {dataset.directory.name} | {name} | {ndcg:.4f} | {costs[0]:.2f} | {costs[1]:.1f} |\n")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", type=Path, help="folders of collections")
    parser.add_argument("--models", default="all-MiniLM-L6-v2,all-MiniLM-L6-v2-int8", help="names, with commas")
    chosen = parser.parse_args()
    set_process_options()
    sys.stdout.write(
        "| collection | model | nDCG@10 | CPU ms a query | a document |\n| --- | --- | ---: | ---: | ---: |\n"
    )
    for directory in chosen.datasets:
        asyncio.run(compare(read_dataset(directory), chosen.models.split(",")))


if __name__ == "__main__":
    main()
