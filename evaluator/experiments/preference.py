"""Reads what a recommendation goes by."""

import math
import re
from dataclasses import dataclass
from typing import Literal

PREFERENCES = "quality, p95=200ms, cpu or index"


@dataclass(frozen=True, slots=True)
class Preference:
    """What decides: quality, alone or where p95 is at most `p95_ms`; or what a contender costs."""

    by: Literal["quality", "p95", "cpu", "index"] = "quality"
    p95_ms: float = math.inf

    def __str__(self) -> str:
        return f"p95={self.p95_ms:.3f}".rstrip("0").rstrip(".") + "ms" if self.by == "p95" else self.by


def preference(word: str) -> Preference:
    """Reads a preference. Raises ValueError, naming all."""
    match word:
        case "quality" | "cpu" | "index":
            return Preference(word)
    if (bound := re.fullmatch(r"p95=([0-9]{1,7}(?:\.[0-9]{1,3})?)(?:ms)?", word)) and float(bound[1]) > 0:
        return Preference("p95", float(bound[1]))
    raise ValueError(f"{word!r} is none of {PREFERENCES}")
