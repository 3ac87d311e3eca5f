"""Every scorer keeps the promises of the port; and what is particular to the one that serves."""

import asyncio
from collections.abc import Iterator

import pytest

from services.chassis.errors import Overloaded
from services.inference.open_model import Engine
from services.inference.pair_scorer import PairScorer
from services.inference.profiles import MODELS_FILE, load_cross_encoder
from services.reranker.app import open_scorer
from services.reranker.scorer import Scorer
from services.reranker.scorer_overlap import OverlapScorer
from services.reranker.settings import RerankerSettings
from tests.contract.scorer import ScorerSuite
from tests.support.models import CROSS_ENCODER, fetched
from tests.support.passages import PASSAGES, QUERY, soon


class TestOverlap(ScorerSuite):
    @pytest.fixture
    def scorer(self) -> Scorer:
        return OverlapScorer()


class TestCached(ScorerSuite):
    @pytest.fixture
    def scorer(self) -> Scorer:
        return open_scorer(RerankerSettings(scorer="overlap", score_cache_mb=1))


@pytest.fixture(scope="module")
def pair_scorer() -> Iterator[Scorer]:
    scorer = open_scorer(RerankerSettings(models=fetched(CROSS_ENCODER).parent))
    yield scorer
    asyncio.run(scorer.close())


class TestPairScorer(ScorerSuite):
    @pytest.fixture
    def scorer(self, pair_scorer: Scorer) -> Scorer:
        return pair_scorer


async def test_more_work_than_may_wait_is_refused_at_once() -> None:
    profile = load_cross_encoder(MODELS_FILE, CROSS_ENCODER)
    scorer = PairScorer(profile, fetched(CROSS_ENCODER), Engine(threads=1, max_pending=1))
    try:
        first = asyncio.create_task(scorer.score(QUERY, PASSAGES * 15, soon()))
        await asyncio.sleep(0.1)
        with pytest.raises(Overloaded):
            await scorer.score(QUERY, PASSAGES * 15, soon())
        assert len(await scorer.score(QUERY, PASSAGES[:1], soon())) == 1  # a small one has no need to wait for it
        assert len(await first) == len(PASSAGES) * 15
    finally:
        await scorer.close()
