"""Reads the training files as one corpus: passages, labelled queries, queries cut out of passages, short queries.

Owns which files are read (never the two that are in-domain with test collections) and the split into training and
held-out queries, which depends on the query's text alone. Mining and sampling are left to mine.py and groups.py.
"""

import gzip
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

# Labelled queries taken of each file. Files of science and medicine weigh most; reviews (research use only) and
# lower-cased single sentences are left out.
LABELLED = {
    "scitldr": 5000,
    "pubmedqa": 1000,
    "covidqa": 1322,
    "covid_faq": 211,
    "medquad": 4000,
    "nq_qed": 3500,
    "nq_open_oracle": 1000,
    "selqa": 1500,
    "policyqa": 800,
    "hotpotqa_sample": 200,
    "musique_sample": 237,
    "mtrag_govt": 517,
}
# Passages of each file that an unlabelled query is cut out of.
CUT_FROM = {"scitldr": 2000, "pubmedqa": 1000, "covidqa": 1000, "medquad": 2000, "nq_qed": 500}
# Short queries: topics of this many passages, and this many labelled questions without their common words.
TOPICS_FROM = {"scitldr": 800, "pubmedqa": 1000, "covidqa": 1200, "medquad": 2000, "nq_qed": 800}
SHORTENED = {"medquad": 800, "covidqa": 700, "nq_qed": 700, "selqa": 300, "nq_open_oracle": 300}
# Held out by query for choosing the model and its weight. Smaller files are trained on whole.
HELD_OUT = ("scitldr", "pubmedqa", "covidqa", "medquad", "nq_qed", "selqa")
HELD_OUT_SHARE = 0.06

# A word in more than COMMON_SHARE of the passages carries no topic; one in fewer than RARE passages ranks no other
# passage. A topic occurs at least TIMES in its passage.
COMMON_SHARE = 0.05
RARE = 3
TIMES = 2
# Numbers of words of a query and their frequencies, as in web and site search: two are most common.
LENGTHS, SHARES = (1, 2, 3, 4), (3, 5, 3, 1)
LONGEST_QUESTION = 5

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")


class TrainingPair(TypedDict):
    """One line of a training file."""

    query: str
    positive: str
    negatives: list[str]


@dataclass(frozen=True, slots=True)
class Question:
    """A query, the file it comes from, the places of its relevant passages, and the passage it was cut out of."""

    text: str
    file: str
    relevant: frozenset[int]
    cut_from: int | None = None
    held_out: bool = False
    short: bool = False


@dataclass(frozen=True, slots=True)
class Corpus:
    """All passages by place, and the questions over them."""

    passages: tuple[str, ...]
    questions: tuple[Question, ...]


def read_corpus(folder: Path, seed: int) -> Corpus:
    """Reads the corpus of ../shared/training; `seed` decides every draw. Raises OSError when a file is missing."""
    draw = random.Random(seed)
    places: dict[str, int] = {}
    relevant: dict[tuple[str, str], set[int]] = {}
    sources: dict[str, list[int]] = {}
    for file, number in LABELLED.items():
        rows = list(_rows(folder / f"{file}.jsonl.gz"))
        for row in draw.sample(rows, min(number, len(rows))):
            place = places.setdefault(row["positive"], len(places))
            relevant.setdefault((file, row["query"]), set()).add(place)
            sources.setdefault(file, []).append(place)
            for negative in row["negatives"]:
                places.setdefault(negative, len(places))
    passages = tuple(places)
    questions = [
        Question(query, file, frozenset(passages), held_out=file in HELD_OUT and _hash_fraction(query) < HELD_OUT_SHARE)
        for (file, query), passages in relevant.items()
    ]
    for file, number in CUT_FROM.items():
        distinct = sorted(set(sources[file]))
        for place in draw.sample(distinct, min(number, len(distinct))):
            sentences = [part for part in _SENTENCE.split(passages[place]) if 6 <= len(part.split()) <= 40]
            if sentences:
                questions.append(Question(draw.choice(sentences), file, frozenset(), cut_from=place))
    return Corpus(passages, (*questions, *short_questions(passages, questions, sources, draw)))


def short_questions(
    passages: Sequence[str], questions: Sequence[Question], sources: Mapping[str, list[int]], draw: random.Random
) -> Iterator[Question]:
    """Yields short queries: topics of passages (unlabelled), and shortened questions with the whole question's label.

    A shortened question is held out when the whole one is; topics are held out by the usual share.
    """
    topics = Topics(passages)
    for file, number in TOPICS_FROM.items():
        distinct = sorted(set(sources[file]))
        for place in draw.sample(distinct, min(number, len(distinct))):
            text = topics.of_passage(passages[place], draw)
            if text is not None:
                yield Question(text, file, frozenset(), held_out=_hash_fraction(text) < HELD_OUT_SHARE, short=True)
    for file, number in SHORTENED.items():
        whole = [question for question in questions if question.file == file and question.relevant]
        for question in draw.sample(whole, min(number, len(whole))):
            text = topics.of_question(question.text)
            if text is not None:
                yield replace(question, text=text, short=True)


class Topics:
    """Cuts short queries out of texts; owns the document frequency of each word."""

    def __init__(self, passages: Sequence[str]) -> None:
        self._passages = Counter(word for passage in passages for word in set(_lowered(passage)))
        self._most = COMMON_SHARE * len(passages)

    def of_passage(self, passage: str, draw: random.Random) -> str | None:
        """Draws one to four neighbouring words that carry a topic; None when the passage has none."""
        length = draw.choices(LENGTHS, SHARES)[0]
        times = Counter(_lowered(passage))
        stretches = [
            run[start : start + length] for run in self._runs(passage) for start in range(len(run) - length + 1)
        ]
        topics = [words for words in stretches if any(times[word.lower()] >= TIMES for word in words)]
        return " ".join(draw.choice(topics)) if topics else None

    def of_question(self, question: str) -> str | None:
        """Returns the question's topic words, in order; None when they are all its words, none, or too many."""
        words = _WORD.findall(question)
        kept = [word for word in words if self._passages[word.lower()] <= self._most]
        return " ".join(kept) if 0 < len(kept) <= LONGEST_QUESTION and len(kept) < len(words) else None

    def _runs(self, passage: str) -> list[list[str]]:
        """Returns the runs of topic words between common words, rare words and punctuation."""
        runs: list[list[str]] = [[]]
        end = 0
        for match in _WORD.finditer(passage):
            if passage[end : match.start()].strip():
                runs.append([])
            end = match.end()
            word = match.group()
            if RARE <= self._passages[word.lower()] <= self._most and len(word) > 2 and not word.isdigit():
                runs[-1].append(word)
            else:
                runs.append([])
        return [run for run in runs if run]


def _lowered(text: str) -> Iterable[str]:
    return (word.lower() for word in _WORD.findall(text))


def _rows(path: Path) -> Iterator[TrainingPair]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _hash_fraction(text: str) -> float:
    """Hashes a text to [0, 1), so that a question is held out in every run or in none."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) / 2**64
