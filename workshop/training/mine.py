"""`python -m workshop.training.mine`: finds candidates of every question, with the scores of BM25 and the teachers.

Candidates come from BM25 (the lexical service's embedded engine, in process) and the exact nearest passages of each
teacher. Writes passages.json and groups.jsonl, one question a line, into `--work`.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from workshop.training.corpus import Corpus, Question, read_corpus
from workshop.training.teacher import Teacher, bge, minilm

DEPTH = 100
NEAREST = 30
COLLECTION = "training@1"


async def bm25(corpus: Corpus, directory: Path) -> list[list[tuple[int, float]]]:
    """Returns for each question BM25's best DEPTH (place, score) over all passages, best first."""
    app = build_app(LexicalSettings(directory=directory))
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://lexical", timeout=600) as client,
    ):
        (await client.put(f"/v1/collections/{COLLECTION}", json={})).raise_for_status()
        for start in tqdm(range(0, len(corpus.passages), 200), desc="index", unit="batch"):
            batch = [
                {"id": str(place), "text": corpus.passages[place]}
                for place in range(start, min(start + 200, len(corpus.passages)))
            ]
            answer = await client.post(f"/v1/collections/{COLLECTION}/documents", json={"documents": batch})
            answer.raise_for_status()
        (await client.post(f"/v1/collections/{COLLECTION}/finish", json={})).raise_for_status()
        rankings = []
        for question in tqdm(corpus.questions, desc="bm25", unit="query"):
            body = {"query": question.text[:2000], "top": DEPTH}
            answer = await client.post(f"/v1/collections/{COLLECTION}/search", json=body)
            answer.raise_for_status()
            rankings.append([(int(hit["id"]), float(hit["score"])) for hit in answer.json()["hits"]])
    return rankings


def vectors(teacher: Teacher, corpus: Corpus, file: Path) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns unit vectors of (questions, passages); `file` caches those of the passages."""
    if not file.exists():
        np.savez(file, passages=teacher.passages(corpus.passages))
    passages = np.load(file)["passages"]
    if len(passages) != len(corpus.passages):
        raise SystemExit(f"{file} is of another corpus; delete it and run again.")
    return teacher.queries([question.text for question in corpus.questions]), passages


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", type=Path, default=Path("../shared/training"))
    parser.add_argument("--models", type=Path, default=Path(".models"))
    parser.add_argument("--work", type=Path, default=Path(".cache/reranker-training"))
    parser.add_argument("--seed", type=int, default=17)
    chosen = parser.parse_args()
    chosen.work.mkdir(parents=True, exist_ok=True)
    corpus = read_corpus(chosen.training, chosen.seed)
    print(f"{len(corpus.passages)} passages, {len(corpus.questions)} questions", flush=True)
    lexical = asyncio.run(bm25(corpus, chosen.work / "lexical"))
    embedded = [
        vectors(bge(chosen.work), corpus, chosen.work / "bge.npz"),
        vectors(minilm(chosen.models), corpus, chosen.work / "minilm.npz"),
    ]
    (chosen.work / "passages.json").write_text(json.dumps(corpus.passages))
    with (chosen.work / "groups.jsonl").open("w") as out:
        for place, question in enumerate(tqdm(corpus.questions, desc="groups", unit="query")):
            out.write(json.dumps(group(place, question, lexical[place], embedded)) + "\n")


def group(
    place: int,
    question: Question,
    lexical: Sequence[tuple[int, float]],
    embedded: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]],
) -> dict[str, object]:
    """Returns a line of groups.jsonl: candidates with their BM25 score (or null) and each teacher's cosine."""
    cosines = [passages @ questions[place] for questions, passages in embedded]
    nearest = [np.argpartition(-of, NEAREST)[:NEAREST].tolist() for of in cosines]
    scores = dict(lexical)
    candidates = list(
        dict.fromkeys([*sorted(question.relevant), *scores, *(passage for of in nearest for passage in of)])
    )
    candidates = [passage for passage in candidates if passage != question.cut_from]
    return {
        "query": question.text,
        "file": question.file,
        "held_out": question.held_out,
        "short": question.short,
        "relevant": sorted(question.relevant),
        "candidates": candidates,
        "bm25": [round(scores[passage], 3) if passage in scores else None for passage in candidates],
        "teachers": [[round(float(of[passage]), 4) for passage in candidates] for of in cosines],
    }


if __name__ == "__main__":
    main()
