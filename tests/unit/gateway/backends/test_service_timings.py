"""What the gateway takes from a Server-Timing header, and what it leaves out."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.backends.replica import MOST_CHARACTERS, MOST_PARTS, collected_parts, parse_parts, record_parts


def answer(header: str) -> dict[str, str]:
    return {"server-timing": header}


def test_every_part_but_the_total_is_read() -> None:
    assert parse_parts("wait;dur=0.01, encode;dur=4.90, total;dur=5.50") == {"wait": 0.01, "encode": 4.9}


@pytest.mark.parametrize(
    "item", ["encode;dur=nan", "encode;dur=-1", "encode;dur=1234567890", "encode", "a.b;dur=1", "e" * 33 + ";dur=1"]
)
def test_an_item_that_is_no_token_with_a_plain_number_is_left_out(item: str) -> None:
    assert parse_parts(f"wait;dur=1.50, {item}") == {"wait": 1.5}


def test_a_header_that_is_too_long_is_left_out() -> None:
    assert parse_parts("wait;dur=1.50," + " " * MOST_CHARACTERS) == {}


@given(st.text(alphabet=st.characters(max_codepoint=300), max_size=MOST_CHARACTERS + 20))
def test_any_header_gives_few_finite_numbers_that_are_not_negative(header: str) -> None:
    parts = parse_parts(header)
    assert len(parts) <= MOST_PARTS
    assert all(math.isfinite(ms) and ms >= 0 for ms in parts.values())


def test_parts_of_several_calls_are_added_and_stay_few() -> None:
    with collected_parts("rerank") as parts:
        record_parts(answer("wait;dur=1.00, get;dur=2.00"))
        record_parts(answer("wait;dur=0.50, score;dur=7.00"))
        assert parts == {"wait": 1.5, "get": 2.0, "score": 7.0}
        record_parts(answer(", ".join(f"p{number};dur=1" for number in range(7))))
        record_parts(answer(", ".join(f"q{number};dur=1" for number in range(7))))
    assert len(parts) == MOST_PARTS


async def test_concurrent_stages_collect_their_own_parts() -> None:
    async def stage(number: int) -> dict[str, float]:
        with collected_parts("rerank") as parts:
            await asyncio.sleep(0)
            await asyncio.gather(*(call(number) for _ in range(2)))
        return dict(parts)

    async def call(number: int) -> None:
        await asyncio.sleep(0)
        record_parts(answer(f"encode;dur={number}"))

    assert await asyncio.gather(*map(stage, range(3))) == [{"encode": 2.0 * number} for number in range(3)]
    record_parts(answer("encode;dur=1"))  # outside of a stage nothing is collected
