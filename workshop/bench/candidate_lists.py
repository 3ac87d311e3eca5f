"""Makes the candidate lists that every contender scores: BM25 results of SciFact, and two mixes of lengths.

`short` and `mixed` are words of our own collection, cut to drawn numbers of tokens: cost depends on length, not on
content. Everything follows from the seed.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import ROOT, TOKENIZER
from workshop.bench.analysis import padding_ratio
from workshop.bench.plain_model import PlainModel
from workshop.bench.report import ListStatistics

BICYCLE_WORKSHOP = ROOT / "evaluator" / "collections" / "bicycle-workshop"
SCIFACT = ROOT.parent / "shared" / "datasets" / "scifact"

# Tokens of a pair, log-normal: mean and sigma. With 0.35 batches of 32 pad the lists of `short` to 1.8 times.
PAIR_TOKENS: dict[str, tuple[float, float]] = {"short": (80.0, 0.35), "mixed": (137.0, 0.8)}
FEWEST_TOKENS = 16
K1, B = 0.9, 0.4


@dataclass(frozen=True, slots=True)
class CandidateList:
    """One query and the passages that a first stage found for it."""

    query: str
    passages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListSampling:
    """Lists a set, pairs a list, and the seed of every draw."""

    lists: int
    pairs: int
    seed: int


def make_lists(drawing: ListSampling, plain: PlainModel) -> tuple[dict[str, list[CandidateList]], dict[str, str]]:
    """Makes every set; returns (lists by set, reason by set that cannot be made)."""
    tokens = ModelTokenizer(plain.folder / TOKENIZER, plain.profile.max_tokens)
    sets = {name: draw_lists(name, drawing, plain.profile.max_tokens, tokens) for name in PAIR_TOKENS}
    if not SCIFACT.is_dir():
        return sets, {"scifact": "../shared/datasets/scifact is not here, so no lists were made of it."}
    # In the order in which reports show them.
    return {"short": sets["short"], "scifact": scifact_lists(SCIFACT, drawing), "mixed": sets["mixed"]}, {}


def list_statistics(lists: Sequence[CandidateList], plain: PlainModel) -> ListStatistics:
    """Counts tokens as the model gets them, and their padding."""
    tokens = ModelTokenizer(plain.folder / TOKENIZER, plain.profile.max_tokens)
    lengths = []
    for each in lists:
        first, *others = tokens.ids([each.query, *each.passages])
        lengths.append([len(tokens.pair(first, ids).ids) for ids in others])
    flat = [length for of_list in lengths for length in of_list]
    return ListStatistics(
        lists=len(lists),
        pairs=len(lengths[0]),
        mean_tokens=float(np.mean(flat)),
        p95_tokens=float(np.percentile(flat, 95)),
        most_tokens=max(flat),
        padding=padding_ratio(lengths),
    )


def draw_lists(name: str, drawing: ListSampling, most_tokens: int, tokens: ModelTokenizer) -> list[CandidateList]:
    """Draws lists whose pairs have log-normal numbers of tokens, about PAIR_TOKENS[name], at most `most_tokens`."""
    mean, sigma = PAIR_TOKENS[name]
    random = np.random.default_rng([drawing.seed, list(PAIR_TOKENS).index(name)])
    words = words_of(BICYCLE_WORKSHOP / "corpus.jsonl")
    sizes = [len(ids) for ids in tokens.ids(words)]
    stream = cycle(range(len(words)))
    queries = islice(cycle(_texts(BICYCLE_WORKSHOP / "queries.jsonl").values()), drawing.lists)
    made = []
    for query in queries:
        own = len(tokens.pair(tokens.ids([query])[0], []).ids)
        wanted = random.lognormal(math.log(mean) - sigma**2 / 2, sigma, size=drawing.pairs)
        passages = []
        for length in np.clip(wanted, FEWEST_TOKENS, most_tokens):
            chosen, left = [], round(float(length)) - own
            while left > 0:
                place = next(stream)
                chosen.append(words[place])
                left -= sizes[place]
            passages.append(" ".join(chosen))
        made.append(CandidateList(query, tuple(passages)))
    return made


def scifact_lists(directory: Path, drawing: ListSampling) -> list[CandidateList]:
    """Returns the BM25 top of a seeded sample of SciFact's test queries, best first. Raises OSError without it."""
    documents = list(_documents(directory / "corpus.jsonl").values())
    queries = _texts(directory / "queries.jsonl")
    rows = (directory / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    judged = sorted({row.split("\t")[0] for row in rows})
    chosen = np.random.default_rng(drawing.seed).choice(judged, size=min(drawing.lists, len(judged)), replace=False)
    index = Bm25(documents)
    return [
        CandidateList(queries[each], tuple(documents[place] for place in index.top(queries[each], drawing.pairs)))
        for each in chosen
    ]


class Bm25:
    """Ranks by textbook BM25 over lower-case words: its candidates are as long as a first stage's."""

    def __init__(self, documents: Sequence[str]) -> None:
        counted = [Counter(_lower(each)) for each in documents]
        lengths = np.array([each.total() for each in counted], dtype=np.float64)
        self._norms = K1 * (1 - B + B * lengths / lengths.mean())
        self._postings: dict[str, list[tuple[int, int]]] = {}
        for place, words in enumerate(counted):
            for word, times in words.items():
                self._postings.setdefault(word, []).append((place, times))

    def top(self, query: str, depth: int) -> list[int]:
        """Returns the places of the best documents, best first; equal scores by place."""
        scores = np.zeros(len(self._norms))
        for word in _lower(query):
            postings = self._postings.get(word, [])
            rarity = math.log(1 + (len(scores) - len(postings) + 0.5) / (len(postings) + 0.5))
            for place, times in postings:
                scores[place] += rarity * times / (times + self._norms[place])
        return [int(place) for place in np.argsort(-scores, kind="stable")[:depth]]


def words_of(corpus: Path) -> list[str]:
    """Returns every word of a collection, in order."""
    return [word for text in _documents(corpus).values() for word in text.split()]


def _documents(corpus: Path) -> dict[str, str]:
    """Reads `<title> <text>` by id."""
    return {line["_id"]: f"{line.get('title', '')} {line['text']}" for line in _lines(corpus)}


def _texts(queries: Path) -> dict[str, str]:
    return {line["_id"]: line["text"] for line in _lines(queries)}


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _lower(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
