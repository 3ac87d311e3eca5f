"""Calls cancelled at any moment leak neither connections nor tasks. `make soak` cancels ten times as many."""

import pytest

from tests.soak import cancellations

SEED = 7


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.integration)])
async def test_random_cancellations_leak_nothing(count: int) -> None:
    (await cancellations.run(SEED, count)).demand()
