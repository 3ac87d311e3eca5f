"""Owns which values a declared metadata field takes, and what engines compare them as. Pure.

A message follows the name of the field.
"""

import json
import math
import re
from datetime import UTC, datetime, timedelta

from services.contracts.filters import Operand

DAY_MS = 86_400_000
# Bytes of a term of Lucene's, and so of a keyword on every engine.
LONGEST_KEYWORD = 32_766
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def keyword_of(value: Operand) -> str:
    """Returns a value as a keyword. Raises ValueError for one that is too long."""
    # true and 5 are written as in JSON, which is how Elasticsearch indexes them as keywords.
    word = value if isinstance(value, str) else json.dumps(value)
    if len(word.encode("utf-8", "surrogatepass")) > LONGEST_KEYWORD:
        raise ValueError(f"is a keyword, which has at most {LONGEST_KEYWORD:,} bytes; keep a longer text undeclared.")
    return word


def number_of(value: Operand) -> float:
    """Returns a JSON number as a double of 15 significant digits, a whole one below 2^63 as an integer.

    Raises ValueError for other values, and beyond the doubles.
    """
    if isinstance(value, bool | str):
        raise ValueError("is declared as a number; send a JSON number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("is declared as a number, and this one is too large.")
    # Qdrant keeps payloads as JSON, whose reader changes the last bit of floats of more digits: after Edge merged its
    # segments, documents were no longer found by such numbers.
    if abs(number) >= 2**63:
        return number
    return round(number) if number.is_integer() or abs(number) >= 1e15 else float(f"{number:.15g}")


def date_span_of(value: Operand) -> tuple[float, float]:
    """Returns first and last millisecond since 1970 of a date: a day without a time is the whole day, as in
    Elasticsearch; a time without a zone is UTC. Raises ValueError for other values."""
    try:
        if not isinstance(value, str) or not _DAY.match(value):
            raise ValueError("neither a day nor a moment")
        moment = datetime.fromisoformat(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        start = float((aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
    except (ValueError, OverflowError) as error:
        raise ValueError("is a date; send it in ISO 8601 (2024-05-31 or 2024-05-31T12:00:00Z).") from error
    return start, start + DAY_MS - 1 if _DAY.fullmatch(value) else start
