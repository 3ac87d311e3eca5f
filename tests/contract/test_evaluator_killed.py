"""`rank` that is killed at random moments continues where it was. `make soak` kills it more often."""

import pytest

from tests.soak import killed_ranks

SEED = 20_261_123


@pytest.mark.integration
@pytest.mark.timeout(180)
async def test_a_rank_killed_at_random_moments_leaves_the_run_files_of_an_undisturbed_one() -> None:
    (await killed_ranks.run(SEED, 3)).demand()
