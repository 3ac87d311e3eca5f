"""Every scorer keeps the promises of the port; and what is particular to the one that serves."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from services.chassis.deadlines import Deadline
from services.chassis.errors import Overloaded
from services.contracts.passages import Passages
from services.inference.open_model import Engine
from services.inference.pair_scorer import PairScorer
from services.inference.passages import Split
from services.inference.profiles import MODELS_FILE, load_cross_encoder
from services.reranker.app import build_app, open_scorer
from services.reranker.scorer import Scorer
from services.reranker.scorer_hosted import HostedScorer
from services.reranker.scorer_overlap import OverlapScorer
from services.reranker.settings import RerankerSettings
from tests.contract.scorer import ScorerSuite
from tests.support.hosted_apis import COHERE, TEI_RERANK, Dialect, ScriptedApi
from tests.support.models import CROSS_ENCODER, fetched
from tests.support.opened_client import opened_client
from tests.support.passages import PASSAGES, QUERY, soon
from tests.support.served import served

SCORING = pytest.mark.parametrize("dialect", [COHERE, TEI_RERANK], ids=["cohere", "tei"])


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


@pytest.fixture(scope="module")
def overlap() -> Iterator[str]:
    with served(build_app(RerankerSettings(scorer="overlap"))) as url:
        yield url


class TestCohere(ScorerSuite):
    dialect = COHERE

    @pytest.fixture
    async def scorer(self, overlap: str) -> AsyncIterator[Scorer]:
        scorer = open_scorer(self.dialect.hosted(overlap, api_batch=2))
        yield scorer
        await scorer.close()

    async def test_scores_are_those_of_the_model_behind_the_api(self, scorer: Scorer) -> None:
        own = await OverlapScorer().score(QUERY, PASSAGES, soon())
        assert await scorer.score(QUERY, PASSAGES, soon()) == pytest.approx(own)
        assert scorer.bounded


class TestTei(TestCohere):
    dialect = TEI_RERANK


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


@contextmanager
def over(api: ScriptedApi, **settings: Any) -> Iterator[Scorer]:
    with api.served() as url:
        yield HostedScorer(api.dialect.hosted(url, **settings))


@SCORING
async def test_an_api_gets_each_passage_once_in_batches_and_no_blank_one(dialect: Dialect) -> None:
    api, passages = ScriptedApi(dialect=dialect), ["chain", " \n", *["oil"] * 119]
    with over(api) as scorer:
        scores = await scorer.score("slips", passages, soon())
        await scorer.close()
    assert scores == (0.5, 0.0, *[0.5] * 119)
    assert [len(texts) for texts in api.texts] == ([100, 20] if dialect is COHERE else [32, 32, 32, 24])
    sent = {"model": "theirs", "top_n": 100} if dialect is COHERE else {"raw_scores": False, "truncate": True}
    assert api.asked[0][1] == {"query": "slips", dialect.texts: ["chain", *["oil"] * len(api.texts[0][1:])], **sent}


@SCORING
async def test_scores_behind_the_first_that_is_late_are_left_out(dialect: Dialect) -> None:
    api = ScriptedApi(dialect=dialect)
    api.held = "late"
    with over(api, api_batch=2, score_cache_mb=1) as scorer:
        begun = time.monotonic()
        given = await scorer.score_until(QUERY, ["a", "b", "c", "late", "d", "e"], Deadline.after_ms(2_000))
        assert time.monotonic() - begun < 20
        assert given.scores == (0.5, 0.5, None, None, None, None)
        assert len(api.asked) == 3
        await scorer.close()


@SCORING
async def test_a_passage_of_which_one_part_is_late_has_no_score(dialect: Dialect) -> None:
    api = ScriptedApi(dialect=dialect)
    api.held = "late " * 15 + "late"
    with over(api, api_batch=1) as scorer:
        split = Split(Passages(tokens=16), (0, 0))
        given = await scorer.score_until(QUERY, ["a", f"{'oil ' * 16} {api.held}"], Deadline.after_ms(2_000), split)
        assert given.scores == (0.5, None)
        await scorer.close()


@SCORING
async def test_a_request_that_got_no_turn_at_the_api_is_told_of_overload(dialect: Dialect) -> None:
    api = ScriptedApi(dialect=dialect)
    api.held = "oil"
    with over(api, api_in_flight=1) as scorer:
        first = asyncio.create_task(scorer.score(QUERY, ["oil"], soon()))
        while not api.asked:  # noqa: ASYNC110  # another thread appends
            await asyncio.sleep(0.01)
        with pytest.raises(Overloaded):
            await scorer.score_until(QUERY, ["chain"], Deadline.after_ms(200))
        api.held = ""
        assert await first == (0.5,)
        await scorer.close()


@SCORING
async def test_a_re_ranker_over_an_api_answers_as_the_one_behind_it_and_says_so(overlap: str, dialect: Dialect) -> None:
    async with opened_client(build_app(dialect.hosted(overlap, api_weight=0.75))) as client:
        answer = (await client.post("/v1/score", json={"query": QUERY, "passages": PASSAGES[:3]})).json()
        assert answer["scores"] == pytest.approx(await OverlapScorer().score(QUERY, PASSAGES[:3], soon()))
        assert (answer["model"], answer["weight"]) == ("theirs@api", 0.75)
        assert (await client.get("/readyz")).json()["checks"] == [{"name": "model", "ok": True, "detail": "theirs@api"}]
