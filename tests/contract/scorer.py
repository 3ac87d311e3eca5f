"""The promises of services/reranker/scorer.py, as tests that every scorer must pass."""

import asyncio
import math
import random
import re

import pytest

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.contracts.passages import Passages
from services.inference.passages import MOST_PASSAGES, Split
from services.reranker.scorer import Scorer
from tests.support.passages import LONG, PASSAGES, QUERY, responsive_event_loop, soon
from tests.support.times import repeated_when_late

BODY = [f"{word} wheel" for word in ("bread", "dough", "spoke", "rim", "bike", "red", "car", "tree") * 3]


def split(tokens: int, overlap: int = 0, *titles: int) -> Split:
    return Split(Passages(tokens=tokens, overlap=overlap), titles)


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

    async def test_a_sentence_behind_the_limit_counts_only_in_passages(self, scorer: Scorer) -> None:
        filler = "bread " * scorer.max_tokens
        texts = [filler, filler + PASSAGES[0]]
        without = await scorer.score(QUERY, texts, soon())
        assert without[0] == pytest.approx(without[1], abs=1e-6)
        for found in (
            await scorer.score(QUERY, texts, soon(), split(scorer.max_tokens // 2, 0, 0, 0)),
            (await scorer.score_until(QUERY, texts, soon(), split(scorer.max_tokens // 2, 0, 0, 0))).scores,
        ):
            first, second = found
            assert first is not None
            assert second is not None
            assert second > max(first, without[1])

    async def test_a_passage_that_fits_has_the_score_that_it_has_without_a_split(self, scorer: Scorer) -> None:
        short = [PASSAGES[place] for place in (0, 1, 2, 4)]
        whole = await scorer.score(QUERY, short, soon())
        assert await scorer.score(QUERY, short, soon(), split(100, 50, 6, 0, 0, 6)) == whole

    async def test_the_best_part_counts_each_with_the_title_in_front(self, scorer: Scorer) -> None:
        words = " ".join(BODY).split()
        parts = [" ".join(["wheel", *words[start : start + 16]]) for start in range(0, len(words) - 4, 12)]
        alone = await scorer.score(QUERY, parts, soon())
        [best] = await scorer.score(QUERY, [" ".join(["wheel", *words])], soon(), split(17, 4, 5))
        assert best == pytest.approx(max(alone), abs=1e-6)

    async def test_the_split_and_the_title_are_part_of_what_is_asked(self, scorer: Scorer) -> None:
        words = ["how", "to", *["bread"] * 10, "true", *["dough"] * 6, "a", *["bread"] * 4, "bent", "wheel"]
        text = " ".join(words)
        asked = [None, split(16, 0, 0), split(24, 0, 0), split(16, 8, 0), split(16, 0, 6)]
        once = [await scorer.score(QUERY, [text], soon(), one) for one in asked]
        assert [await scorer.score(QUERY, [text], soon(), one) for one in asked] == once
        assert len(set(once)) >= 4

    async def test_what_stands_behind_the_most_parts_is_not_read(self, scorer: Scorer) -> None:
        text = "bread " * 16 * MOST_PASSAGES
        [without, behind] = await scorer.score(QUERY, [text, text + PASSAGES[0]], soon(), split(16, 0, 0, 0))
        assert behind == pytest.approx(without, abs=1e-6)

    async def test_the_length_of_a_pair_is_that_before_it_is_cut(self, scorer: Scorer) -> None:
        lengths = await scorer.lengths(QUERY, PASSAGES, soon())
        assert lengths[3] >= 400 > lengths[0] > lengths[2] > 0
        assert scorer.max_tokens > 0

    @pytest.mark.integration  # takes seconds
    @pytest.mark.alone
    @repeated_when_late
    async def test_the_loop_turns_while_eight_megabytes_are_scored_and_measured(self, scorer: Scorer) -> None:
        async with responsive_event_loop():
            assert len(await scorer.score(QUERY, LONG, soon())) == len(LONG)
        async with responsive_event_loop():
            assert len(await scorer.score(QUERY, LONG, soon(), split(16, 0, 0, 0, 0, 0))) == len(LONG)
        async with responsive_event_loop():
            assert min(await scorer.lengths(QUERY, LONG, soon())) > 300_000

    async def test_the_model_and_its_weight_are_named(self, scorer: Scorer) -> None:
        assert re.fullmatch("[^@]+@([0-9a-f]{12}|api)", scorer.model)
        assert 0 <= scorer.weight <= 1
