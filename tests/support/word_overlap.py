"""Owns how much texts share, by words and by trigrams, with which backends in memory rank."""

import math
from collections import Counter
from functools import lru_cache

STOP_WORDS = {"the", "a", "of", "and", "is", "in"}


def words(text: str) -> Counter[str]:
    return Counter(word for word in text.lower().split() if word not in STOP_WORDS)


@lru_cache(maxsize=4096)
def trigrams(text: str) -> Counter[str]:
    padded = f"  {text.lower()} "
    return Counter(padded[place : place + 3] for place in range(len(padded) - 2))


def cosine(one: Counter[str], other: Counter[str]) -> float:
    shared = sum(count * other[key] for key, count in one.items())
    norms = math.sqrt(sum(c * c for c in one.values()) * sum(c * c for c in other.values()))
    return shared / norms if norms else 0.0
