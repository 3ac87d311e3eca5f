"""JSON is bounded before it is parsed; every text within the bounds is parsed as Python parses it."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.chassis.errors import BadInput, Malformed
from services.chassis.requests.json_route import DEEPEST, MOST_KEYS, MOST_VALUES, parse_json

REFUSED = {
    "65 levels": (b"[" * 65 + b"]" * 65, Malformed, "nested too deeply"),
    "brackets that never close": (b"[" * 60_000, Malformed, "nested too deeply"),
    "one value too many": (b"[" + b"1," * MOST_VALUES + b"1]", BadInput, "more than 100,000 values"),
    "as many, in lists of one": (b"[" + b"[1]," * (MOST_VALUES // 2) + b"1]", BadInput, "more than 100,000 values"),
    "1,001 keys": (
        json.dumps(dict.fromkeys(map(str, range(MOST_KEYS + 1)))).encode(),
        BadInput,
        "more than 1,000 keys",
    ),
    "the same key twice": (b'{"top": 1, "top": 2}', BadInput, "'top' stands twice"),
    "a number beyond 64 bits": (b"[1e400]", BadInput, "1e400"),
    "a number of 41 digits": (b"[" + b"1" * 41 + b"]", Malformed, "more than 40 digits"),
    "NaN": (b"[NaN]", Malformed, "not valid JSON"),
    "bad UTF-8": (b'["\xff"]', Malformed, "not valid JSON"),
}
TAKEN = {
    "64 levels": b"[" * DEEPEST + b"]" * DEEPEST,
    "brackets in a text": json.dumps(["[" * 1_000, "{" * 1_000]).encode(),
    "quotes and backslashes in texts": json.dumps(['"[[\\"', "\\", '\\"[', "[" * 100] * 100).encode(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_json_beyond_a_bound_is_refused_and_the_bound_named(name: str) -> None:
    body, kind, words = REFUSED[name]
    with pytest.raises(kind) as refused:
        parse_json(body)
    assert words in refused.value.detail


@pytest.mark.parametrize("name", TAKEN)
def test_characters_inside_strings_do_not_count(name: str) -> None:
    assert parse_json(TAKEN[name]) == json.loads(TAKEN[name])


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values, st.booleans())
def test_every_value_is_parsed_as_python_parses_it(value: object, escaped: bool) -> None:
    # More brackets than levels are allowed, so that strings are told from the rest.
    body = json.dumps([value, [[]] * DEEPEST], ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    try:
        expected = json.loads(body.decode())
    except ValueError:
        return
    assert parse_json(body) == expected


@pytest.mark.parametrize("unit", [b"[],", b'"",', b"[", b'"', b"\\", b'\\"', b'{"a":1},', b"1e9,"])
def test_no_body_of_8_mb_takes_long_to_parse_or_refuse(unit: bytes) -> None:
    body = b"[" + unit * (7_900_000 // len(unit)) + b"1]"
    started = time.process_time()
    with contextlib.suppress(BadInput, Malformed):
        parse_json(body)
    assert time.process_time() - started < 0.25
