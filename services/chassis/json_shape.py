"""Parses JSON whose shape is bounded first: 8 MB hold millions of values, and these take gigabytes once parsed.

Looks at bytes with what Python does at the speed of C. What is left to the parser is small enough for the event loop.
"""

import json
import math
from collections import Counter
from itertools import accumulate
from typing import Any, NoReturn

from services.chassis.errors import BadInput, Malformed

DEEPEST = 64
MOST_VALUES = 100_000
MOST_KEYS = 1_000
MOST_DIGITS = 40

# Brackets become steps down and up, everything else is left out.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
# To drop all other bytes takes 1 ns a byte, whatever they are; bytes.count takes 30 for each that it finds.
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NO_OPENING = bytes(set(range(256)) - set(b"[{"))
_NO_COUNTED = bytes(set(range(256)) - set(b"[{,"))
_NO_QUOTES = bytes(set(range(256)) - set(b'"'))


def parse_json(body: bytes) -> Any:
    """The value of a JSON text in UTF-8. Raises Malformed or BadInput, which say what is wrong with it."""
    _check_shape(body)
    try:
        return _DECODER.decode(body.decode())
    except RecursionError as error:
        raise Malformed(f"The JSON is nested too deeply; {DEEPEST} levels are allowed.") from error
    except ValueError as error:  # bad UTF-8, bad JSON, NaN, a number of thousands of digits
        raise Malformed("The body is not valid JSON in UTF-8.") from error


def _check_shape(body: bytes) -> None:
    # Each value but the first of its list or object follows a comma; a list or an object is a value itself.
    counted = len(body.translate(None, _NO_COUNTED))
    # A text has brackets and commas too: only where these are many what stands in quotes is told from the rest.
    if counted <= DEEPEST:
        return
    opening = len(body.translate(None, _NO_OPENING))
    if opening <= DEEPEST and counted <= MOST_VALUES:
        return
    if len(body.translate(None, _NO_QUOTES)) > 4 * MOST_VALUES:
        raise _too_many_values()
    outside = _outside_quotes(body)
    if len(outside.translate(None, _NO_COUNTED)) > MOST_VALUES:
        raise _too_many_values()
    steps = outside.translate(_STEPS, _NO_BRACKETS)
    if max(accumulate(memoryview(steps).cast("b")), default=0) > DEEPEST:
        raise Malformed(f"The JSON is nested too deeply; {DEEPEST} levels are allowed.")


def _outside_quotes(body: bytes) -> bytes:
    """The text without its strings. Without pairs of backslashes every quote that has one before it is in a string."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(plain.split(b'"')[::2])


def _too_many_values() -> BadInput:
    return BadInput(f"The body has more than {MOST_VALUES:,} values; send smaller batches.")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:  # an int takes quadratic time in its digits, and nothing here counts so far
        raise Malformed(f"A number has more than {MOST_DIGITS} digits.")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise BadInput(f"A number is beyond what 64 bits can hold: {text[:20]}.")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MOST_KEYS:
        raise BadInput(f"An object has more than {MOST_KEYS:,} keys.")
    made = dict(pairs)
    if len(made) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        shown = twice[:40].encode(errors="replace").decode()
        raise BadInput(f"The key '{shown}' stands twice in one object; send it once.")
    return made


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_finite, parse_constant=_refuse_constant
)
