"""Generates a small collection on which every setting of BM25 and of its evaluation shows, and its exact figures.

Words have a digit, so that no analyzer changes them; no text reaches 40 words, up to where Lucene keeps lengths exact.
"""

import ctypes
import json
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytrec_eval

from services.contracts.collections import LexicalPreset
from tests.support.textbook_bm25 import bm25

WORDS = [f"w{number}" for number in range(60)]


@dataclass(frozen=True)
class ParityCollection:
    """Documents (title, text), queries and grades, by id."""

    documents: Mapping[str, tuple[str, str]]
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]
    rankings: dict[LexicalPreset, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)

    def write(self, directory: Path) -> Path:
        """Writes the collection in BEIR layout; returns the directory."""
        (directory / "qrels").mkdir(parents=True)
        corpus = [{"_id": one, "title": title, "text": text} for one, (title, text) in self.documents.items()]
        queries = [{"_id": one, "text": text} for one, text in self.queries.items()]
        for name, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
            (directory / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        lines = [f"{query}\t{one}\t{grade}\n" for query, judged in self.grades.items() for one, grade in judged.items()]
        (directory / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
        return directory

    def figure(
        self,
        preset: LexicalPreset,
        *,
        self_retrieved: str = "same id and text",
        ties: str = "ascending",
        missing: str = "counted as 0",
    ) -> str:
        """Returns nDCG@10 to four decimals, by the textbook's BM25 and trec_eval; equal scores as `ties` says."""
        run = {query: self._kept(query, scores, self_retrieved) for query, scores in self._scores(preset).items()}
        if ties == "ascending":
            run = {query: _distinct(scores) for query, scores in run.items()}
        grades = {query: dict(judged) for query, judged in self.grades.items()}
        found = pytrec_eval.RelevanceEvaluator(grades, {"ndcg_cut.10"}).evaluate({q: r for q, r in run.items() if r})
        counted = len(found) if missing == "dropped" else len(grades)
        return f"{math.fsum(one['ndcg_cut_10'] for one in found.values()) / counted:.4f}"

    def _kept(self, query: str, scores: Mapping[str, float], rule: str) -> dict[str, float]:
        itself = self.documents.get(query, ("", ""))[1] == self.queries[query]
        dropped = rule == "same id" or (rule == "same id and text" and itself)
        return {one: score for one, score in scores.items() if one != query or not dropped}

    def _scores(self, preset: LexicalPreset) -> Mapping[str, Mapping[str, float]]:
        if preset not in self.rankings:
            self.rankings[preset] = {query: self._scored(preset, text) for query, text in self.queries.items()}
        return self.rankings[preset]

    def _scored(self, preset: LexicalPreset, query: str) -> dict[str, float]:
        if preset.match == "flat":
            return bm25(
                {one: f"{title} {text}" for one, (title, text) in self.documents.items()}, query, preset.k1, preset.b
            )
        titles, texts = (
            bm25({one: document[place] for one, document in self.documents.items()}, query, preset.k1, preset.b)
            for place in (0, 1)
        )
        weaker = preset.tie_breaker if preset.match == "best_fields" else 1.0
        pairs = {one: sorted((titles.get(one, 0.0), texts.get(one, 0.0))) for one in {*titles, *texts}}
        return {one: best + weaker * other for one, (other, best) in pairs.items()}


def _distinct(scores: Mapping[str, float]) -> dict[str, float]:
    """Replaces scores by their places, so that trec_eval keeps equal ones in ascending order of id."""
    ranked = sorted(scores, key=lambda one: (-ctypes.c_float(scores[one]).value, one))
    return {one: float(len(ranked) - place) for place, one in enumerate(ranked)}


@cache
def generated_collection(seed: int) -> ParityCollection:
    """Generates documents, some of them twice (equal scores), some of them queries, and queries without any hit."""
    dice = random.Random(seed)
    weights = [1 / (place + 4) for place in range(len(WORDS))]

    def some(least: int, most: int) -> str:
        return " ".join(dice.choices(WORDS, weights, k=dice.randint(least, most)))

    documents = {f"d{number:03}": (some(1, 4), some(4, 30)) for number in range(0, 240, 2)}
    documents |= {f"d{int(one[1:]) + 1:03}": documents[one] for one in dice.sample(sorted(documents), 40)}
    queries = {f"q{number:02}": some(2, 4) for number in range(36)}
    documents |= {query: (some(1, 3), queries[query]) for query in sorted(queries)[:6]}  # these are queries too
    documents |= {
        query: (some(1, 3), f"{queries[query]} {some(1, 3)}") for query in sorted(queries)[6:9]
    }  # these have a query's id alone
    grades = {}
    for query, text in queries.items():
        holding = [
            one for one, (title, words) in documents.items() if {*text.split()} & {*title.split()} and one != query
        ]
        grades[query] = {one: dice.choice((1, 1, 2)) for one in sorted(dice.sample(holding, min(5, len(holding))))}
    for number in range(36, 40):
        queries[f"q{number}"], grades[f"q{number}"] = f"unknown{number}", {"d000": 1}
    return ParityCollection(documents, queries, grades)
