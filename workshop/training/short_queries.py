"""Makes short queries, as people type them, from passages and questions; the training files ask in sentences.

Words carry a topic when few passages use them (document frequency).
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
# A word in more than COMMON_SHARE of the passages carries no topic; one in fewer than RARE passages ranks no other
# passage. A topic occurs at least TIMES in its passage.
COMMON_SHARE = 0.05
RARE = 3
TIMES = 2
# Numbers of words of a query and their frequencies, as in web and site search: two are most common.
LENGTHS, SHARES = (1, 2, 3, 4), (3, 5, 3, 1)
LONGEST_QUESTION = 5


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
        for found in _WORD.finditer(passage):
            if passage[end : found.start()].strip():
                runs.append([])
            end = found.end()
            word = found.group()
            if RARE <= self._passages[word.lower()] <= self._most and len(word) > 2 and not word.isdigit():
                runs[-1].append(word)
            else:
                runs.append([])
        return [run for run in runs if run]


def _lowered(text: str) -> Iterable[str]:
    return (word.lower() for word in _WORD.findall(text))
