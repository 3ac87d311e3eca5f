"""BM25 from the textbook (Robertson and Zaragoza 2009, equation 3.15, with Lucene's idf), ten lines to compare with."""

import math
from collections.abc import Mapping


def bm25(texts: Mapping[str, str], query: str, k1: float, b: float) -> dict[str, float]:
    """Scores of texts whose words are separated by spaces and need no analysis, by id; those without a match left out.

    A text without words is none of the collection's, as in Lucene.
    """
    words = {one: text.split() for one, text in texts.items() if text.split()}
    average = sum(map(len, words.values())) / len(words)
    scores = dict.fromkeys(words, 0.0)
    for term in query.split():
        holding = sum(term in terms for terms in words.values())
        idf = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
        for one, terms in words.items():
            if tf := terms.count(term):
                scores[one] += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(terms) / average))
    return {one: score for one, score in scores.items() if score > 0}
