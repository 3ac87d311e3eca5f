"""Our load generator agrees with vegeta, which reads the targets that `load --export` writes."""

import pytest

from tests.soak import agreement
from tests.support.go_programs import ProgramMissingError
from tests.support.times import repeated_when_late, timed

# `make soak` compares with k6 too, whose build takes two minutes of CPU. That of vegeta takes seconds.
pytestmark = [pytest.mark.integration, pytest.mark.alone, pytest.mark.timeout(400)]
SEED = 20_261_123


@repeated_when_late
async def test_vegeta_sees_what_our_generator_sees() -> None:
    try:
        found = await agreement.measured(SEED, 2, 4.0, ["vegeta"])
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    if not found["ours"]:
        pytest.skip("this machine cannot tell: foreign load disturbed every turn")
    with timed():
        agreement.judged(SEED, found).demand()
