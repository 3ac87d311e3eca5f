"""`python -m workshop.bench.token_storage DATASET FOLDER`: compares the storages of token vectors on Qdrant Edge.

Prints, for each, the bytes a document takes on the disk and of what a search reads, and nDCG@10 with each number of
candidates; at the end nDCG@10 over all documents. FOLDER keeps the vectors for the next run: `tokens.f16` [tokens,
dimension], `lengths.npy` (tokens of each document), `ids.json`, `queries.npz` (fp32, by query id).
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from evaluator.datasets.reader import Dataset, read_dataset
from evaluator.metrics.quality import means, measure
from services.contracts.collections import CollectionDeclaration
from services.inference.process_options import set_process_options
from services.inference.profiles import MODELS_FILE, load_token_encoder
from services.inference.token_encoder import TokenEncoder
from services.vectorstore.representation import MultiVector, Storage, TokenVectors
from services.vectorstore.store import GenerationSpec, Point, VectorQuery
from services.vectorstore.store_edge import EdgeStore

BATCH = 64
METRIC = "nDCG@10"
STORAGES: Sequence[Storage] = ("fp16", "int8", "bits")
# What a search reads: codes where there are some, else the token vectors; pooled vectors and their graph.
CODES, VECTORS, POOLED = ("vector_storage-tokens/quantized*", "vector_storage-tokens/vectors/*", "*-pooled/**/*")


async def encode(dataset: Dataset, model: str, folder: Path) -> None:
    """Writes the vectors of all documents and of the judged queries into an empty folder."""
    encoder = TokenEncoder(load_token_encoder(MODELS_FILE, model), Path(".models", model))
    documents, lengths = list(dataset.documents()), list[int]()
    with (folder / "tokens.f16").open("wb") as file:
        for at in range(0, len(documents), BATCH):
            texts = [f"{one.title} {one.text}".strip() for one in documents[at : at + BATCH]]
            for tokens in await encoder.encode_passages(texts):
                file.write(tokens.astype(np.float16).tobytes())
                lengths.append(len(tokens))
    queries = {query: await encoder.encode_query(dataset.queries[query]) for query in dataset.judgments}
    await encoder.close()
    np.save(folder / "lengths.npy", np.array(lengths))
    (folder / "ids.json").write_text(json.dumps([one.id for one in documents]))
    np.savez(folder / "queries.npz", allow_pickle=False, **queries)


def size(shard: Path, pattern: str) -> int:
    """Adds up the bytes that the files hold on the disk; Edge's files have holes."""
    return sum(file.stat().st_blocks * 512 for file in shard.glob(f"segments/*/{pattern}") if file.is_file())


@dataclass(frozen=True, slots=True)
class EncodedTokens:
    """The token vectors of documents [tokens, dimension], where those of each begin and end, and of queries."""

    ids: Sequence[str]
    tokens: NDArray[np.float16]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    queries: Mapping[str, TokenVectors]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Reads a folder, the token vectors on demand."""
        with np.load(folder / "queries.npz") as held:
            queries: dict[str, TokenVectors] = dict(held)
        lengths = np.load(folder / "lengths.npy")
        tokens = np.memmap(folder / "tokens.f16", np.float16, "r").reshape(lengths.sum(), -1)
        ends = np.cumsum(lengths)
        return cls(json.loads((folder / "ids.json").read_text()), tokens, ends - lengths, ends, queries)

    def rankings(self) -> dict[str, list[str]]:
        """Ranks all documents for each query by NumPy's MaxSim: the first ten ids."""
        scores = np.empty((len(self.queries), len(self.ids)))
        rows = np.vstack(list(self.queries.values()))
        of_query = np.cumsum([0, *map(len, self.queries.values())])[:-1]
        for place, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            best = (rows @ self.tokens[start:end].astype(np.float32).T).max(axis=1)
            scores[:, place] = np.add.reduceat(best, of_query)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :10]
        return {query: [self.ids[at] for at in row] for query, row in zip(self.queries, order, strict=True)}


async def row(storage: Storage, encoded: EncodedTokens, beams: Sequence[int], dataset: Dataset, directory: Path) -> str:
    """Stores the vectors, indexes them, runs the queries, and returns the row of the table."""
    store = EdgeStore(directory)
    representation = MultiVector(encoded.tokens.shape[1], storage)
    await store.create(GenerationSpec("c@1", representation, {"model": "-"}, CollectionDeclaration()))
    for at in range(0, len(encoded.ids), BATCH):
        part = slice(at, at + BATCH)
        places = zip(encoded.ids[part], encoded.starts[part], encoded.ends[part], strict=True)
        batch = [Point(one, encoded.tokens[a:b].astype(np.float32), "-", "-", {}) for one, a, b in places]
        await store.upsert("c@1", batch)
    await store.finish("c@1")
    shard = next((directory / "c@1").glob("shard-*"))
    read = (size(shard, CODES) or size(shard, VECTORS)) + size(shard, POOLED)
    cells = [f"{taken / len(encoded.ids):,.0f}" for taken in (size(shard, "**/*"), read)]
    for beam in beams:
        found = {}
        for query, vector in encoded.queries.items():
            hits = await store.search("c@1", VectorQuery(vector, 10, beam=beam))
            found[query] = [hit.id for hit in hits]
        cells.append(ndcg(dataset, found))
    await store.close()
    return f"| {storage} | {' | '.join(cells)} |\n"


def ndcg(dataset: Dataset, found: Mapping[str, Sequence[str]]) -> str:
    """Returns the mean over the queries, as text."""
    return f"{means(measure(dataset.judgments, found, list(found), (METRIC,)))[METRIC]:.4f}"


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", type=Path, help="folder of a collection")
    parser.add_argument("folder", type=Path, help="of its token vectors; made if it does not exist")
    parser.add_argument("--model", default="bge-small-en-v1.5-tokens", help="of .models")
    parser.add_argument("--beams", default="256,1024", help="numbers of candidates, with commas")
    chosen = parser.parse_args()
    set_process_options()
    dataset, beams = read_dataset(chosen.dataset), [int(beam) for beam in chosen.beams.split(",")]
    if not chosen.folder.exists():
        chosen.folder.mkdir(parents=True)
        asyncio.run(encode(dataset, chosen.model, chosen.folder))
    encoded = EncodedTokens.read(chosen.folder)
    sys.stdout.write(f"| storage | disk | a search reads | {' | '.join(map(str, beams))} |\n")
    sys.stdout.write(f"| --- {'| ---: ' * (2 + len(beams))}|\n")
    for storage in STORAGES:
        with tempfile.TemporaryDirectory(dir=chosen.folder) as directory:
            sys.stdout.write(asyncio.run(row(storage, encoded, beams, dataset, Path(directory))))
            sys.stdout.flush()
    sys.stdout.write(f"All documents, by NumPy: {ndcg(dataset, encoded.rankings())}\n")


if __name__ == "__main__":
    main()
