"""The promises of services/reranker/scorer.py, as tests that every scorer must pass."""

import asyncio
import math
import random

import pytest

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.reranker.scorer import Scorer
from tests.support.passages import LONG, PASSAGES, QUERY, responsive_event_loop, soon
from tests.support.times import repeated_when_late


class ScorerSuite:
    """A subclass gives the `scorer` fixture."""

    async def test_there_is_one_finite_score_a_passage(self, scorer: Scorer) -> None:
        scores = await scorer.score(QUERY, PASSAGES, soon())
        assert len(scores) == len(PASSAGES)
        assert all(math.isfinite(score) for score in scores)

    async def test_what_answers_the_query_scores_above_what_does_not(self, scorer: Scorer) -> None:
        scores = await scorer.score(QUERY, PASSAGES, soon())
        assert scores[0] > scores[1]

    async def test_a_score_does_not_depend_on_the_other_passages_or_their_order(self, scorer: Scorer) -> None:
        together = dict(zip(PASSAGES, await scorer.score(QUERY, PASSAGES, soon()), strict=True))
        for seed in range(3):
            some = random.Random(seed).sample(PASSAGES, 3)
            for passage, score in zip(some, await scorer.score(QUERY, some, soon()), strict=True):
                assert score == pytest.approx(together[passage], abs=1e-6)

    async def test_a_score_does_not_depend_on_what_else_is_in_flight(self, scorer: Scorer) -> None:
        alone = await scorer.score(QUERY, PASSAGES, soon())
        crowd = await asyncio.gather(*(scorer.score(f"{QUERY} {n}", PASSAGES, soon()) for n in range(3)),
                                     scorer.score(QUERY, PASSAGES, soon()))  # fmt: skip
        assert crowd[-1] == pytest.approx(alone, abs=1e-6)

    async def test_a_passed_deadline_ends_the_work(self, scorer: Scorer) -> None:
        with pytest.raises(DeadlineExceeded):
            await scorer.score(QUERY, PASSAGES * 50, Deadline.after_ms(0))

    async def test_with_time_enough_partial_scores_are_all_scores(self, scorer: Scorer) -> None:
        scores = await scorer.score_until(QUERY, PASSAGES, soon())
        assert scores.scores == pytest.approx(await scorer.score(QUERY, PASSAGES, soon()), abs=1e-6)
        assert scores.needs_s is None

    async def test_without_time_partial_scores_are_none_and_no_error(self, scorer: Scorer) -> None:
        partial = await scorer.score_until(QUERY, PASSAGES, Deadline.after_ms(0))
        assert partial.scores == (None,) * len(PASSAGES)

    async def test_the_length_of_a_pair_is_that_before_it_is_cut(self, scorer: Scorer) -> None:
        lengths = await scorer.lengths(QUERY, PASSAGES, soon())
        assert lengths[3] >= 400 > lengths[0] > lengths[2] > 0
        assert scorer.max_tokens > 0

    @pytest.mark.integration  # takes seconds
    @repeated_when_late
    async def test_the_loop_turns_while_eight_megabytes_are_scored_and_measured(self, scorer: Scorer) -> None:
        async with responsive_event_loop():
            assert len(await scorer.score(QUERY, LONG, soon())) == len(LONG)
        async with responsive_event_loop():
            assert min(await scorer.lengths(QUERY, LONG, soon())) > 300_000

    async def test_a_bounded_score_is_a_share(self, scorer: Scorer) -> None:
        scores = await scorer.score(QUERY, PASSAGES, soon())
        assert not scorer.bounded or all(0 <= score <= 1 for score in scores)

    async def test_the_model_and_its_weight_are_named(self, scorer: Scorer) -> None:
        name, _, weights_hash = scorer.model.partition("@")
        assert name
        assert len(weights_hash) == 12
        assert 0 <= scorer.weight <= 1
