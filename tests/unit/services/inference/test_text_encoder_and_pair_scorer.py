"""Checks that vectors and scores depend on the text alone, not on its batch or on concurrent requests."""

import asyncio
import time

import numpy as np
import pytest
from numpy.typing import NDArray

from services.chassis.admission.cores import available_cores
from services.chassis.deadlines import Deadline
from services.contracts.passages import Passages
from services.inference.model_tokenizer import Row
from services.inference.open_model import TRIAL_S, Engine, TokenTime
from services.inference.pair_scorer import PairScorer
from services.inference.partial_scores import PartialScores
from services.inference.passages import Split
from services.inference.profiles import MODELS_FILE, ModelError, load_cross_encoder, load_encoder
from services.inference.session import Session
from services.inference.text_encoder import TextEncoder, pool
from tests.support.models import (
    CROSS_ENCODER,
    ENCODER,
    constant,
    fetched,
    ids_as_hidden,
    node,
    sum_of_ids,
    tiny_cross_encoder,
    tiny_encoder,
)


@pytest.fixture(scope="module")
def scorer():
    opened = PairScorer(load_cross_encoder(MODELS_FILE, CROSS_ENCODER), fetched(CROSS_ENCODER), Engine(threads=2))
    yield opened
    asyncio.run(opened.close())


@pytest.fixture(scope="module")
def encoder():
    opened = TextEncoder(load_encoder(MODELS_FILE, ENCODER), fetched(ENCODER), Engine(threads=2))
    yield opened
    asyncio.run(opened.close())


class SlowSession:
    """Delays a session by one millisecond a token."""

    def __init__(self, inner: Session) -> None:
        self._inner = inner
        self.batchable = inner.batchable

    def run(self, rows: list[Row]) -> NDArray[np.float32]:
        time.sleep(0.001 * len(rows) * max(len(row.ids) for row in rows))
        return self._inner.run(rows)


class FixedTokenTime(TokenTime):
    """Returns fixed times, whatever is recorded."""

    def __init__(self, seconds_per_token: float, lowest: float) -> None:
        super().__init__()
        self.fixed_s, self.fixed_lowest_s = seconds_per_token, lowest

    @property
    def seconds_per_token(self) -> float:
        return self.fixed_s

    @property
    def lowest_seconds_per_token(self) -> float:
        return self.fixed_lowest_s


def test_a_gpu_has_larger_batches_and_two_threads_unless_they_are_set() -> None:
    cpu, gpu, chosen = Engine(), Engine("cuda"), Engine("cuda", 3, 4_096)
    assert (cpu.workers, cpu.batch_tokens) == (available_cores(), 512)
    assert (gpu.workers, gpu.batch_tokens) == (2, 16_384)
    assert (chosen.workers, chosen.batch_tokens) == (3, 4_096)


@pytest.mark.parametrize("dimension", [384, 100])
def test_vectors_of_every_release_have_the_same_bits(dimension: int) -> None:
    profile = load_encoder(MODELS_FILE, ENCODER).model_copy(update={"dimension": dimension})
    lengths = list(range(2, 60))
    hidden = np.random.default_rng(3).standard_normal((len(lengths), 60, 384)).astype(np.float32)
    # As earlier releases computed them, and the indexes that they left.
    means = np.stack([hidden[place, :length].mean(axis=0) for place, length in enumerate(lengths)])[:, :dimension]
    assert np.array_equal(pool(hidden, lengths, profile), means / np.linalg.norm(means, axis=1, keepdims=True))


@pytest.fixture
def opened():
    """Opens models on one thread, and closes them after the test."""
    models = []

    def open_model(kind, profile, folder, **engine):
        models.append(kind(profile, folder, Engine(threads=1, **engine)))
        return models[-1]

    yield open_model
    for model in models:
        asyncio.run(model.close())


async def test_words_beyond_the_token_limit_change_nothing(encoder):
    long = "spoke " * 254  # with [CLS] and [SEP]: 256
    at, over = await encoder.encode_passages([long, long + "entirely different words"])
    np.testing.assert_array_equal(at, over)


async def test_at_the_deadline_the_first_ranks_are_scored_and_the_call_returns(tmp_path, opened):
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    passages = [f"w{place % 90}" for place in range(400)]
    complete = await scorer.score("w1", passages)
    scorer._model._session = SlowSession(scorer._model._session)
    scorer._model.token_time = TokenTime()
    await scorer.score("w1", passages[:20])  # 100 tokens: now the time per token is known
    start = time.monotonic()
    partial = (await scorer.score_until("w1", passages, Deadline.after_ms(500))).scores  # for 2,000 tokens of 1 ms each
    assert time.monotonic() - start < 2
    depth = sum(score is not None for score in partial)
    assert 0 < depth <= 100
    assert partial == complete[:depth] + (None,) * (400 - depth)


async def test_at_the_deadline_a_split_passage_is_scored_whole_or_not(tmp_path, opened):
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    split = Split(Passages(tokens=16, overlap=4), (3,) * 100)
    passages = [f"w{place % 90} " * (10 + place % 40) for place in range(100)]
    complete = await scorer.score("w1", passages, None, split)
    scorer._model._session = SlowSession(scorer._model._session)
    scorer._model.token_time = TokenTime()
    await scorer.score("w1", passages[:5], None, split.of(range(5)))  # now the time per token is known
    partial = (await scorer.score_until("w1", passages, Deadline.after_ms(1_500), split)).scores
    scored = [place for place, score in enumerate(partial) if score is not None]
    assert 15 <= len(scored) < 100
    assert [partial[place] for place in scored] == [complete[place] for place in scored]
    assert scored[:15] == list(range(15))


async def test_a_split_passage_costs_the_tokens_of_all_its_parts(tmp_path, opened):
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    scorer._model.token_time = FixedTokenTime(10.0, lowest=0.01)
    scorer._model.tokenizer = None
    split = Split(Passages(tokens=16, overlap=8), (0,) * 5)
    partial = await scorer.score_until("w1 w", ["w2 w" * 40] * 5, Deadline.after_ms(5_000), split)
    assert partial.scores == (None,) * 5
    assert partial.needs_s == pytest.approx(5 * 4 * (1 + 16) * 0.01)  # 40 tokens in 4 parts, beside a query of 1


async def test_passages_that_the_deadline_leaves_no_time_for_are_not_tokenised(tmp_path, opened):
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    scorer._model.token_time = FixedTokenTime(10.0, lowest=0.01)
    scorer._model.tokenizer = None
    partial = await scorer.score_until("w1", ["w2 " * 9] * 5, Deadline.after_ms(5_000))
    assert partial.scores == (None,) * 5
    assert partial.needs_s == pytest.approx(0.35)  # 5 pairs of 29 characters, by 4 a token


@pytest.mark.parametrize(("seconds", "trials"), [(5.12, 20), (51.2, 100)])  # by the latter, no single pair has the time
async def test_a_slow_first_measurement_does_not_refuse_passages_for_good(tmp_path, opened, seconds, trials):
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    now = [100.0]
    scorer._model.token_time = TokenTime(lambda: now[0])
    scorer._model.token_time.record(512, seconds)
    passages = ["w2 " * 9] * 20

    async def scored() -> int:
        partial: PartialScores = await scorer.score_until("w1", passages, Deadline.after_ms(400))
        return 20 - partial.scores.count(None)

    assert await scored() == 0
    for _ in range(trials):
        now[0] += TRIAL_S
        await scored()
    assert await scored() == 20


async def test_fewer_than_ten_that_fit_by_their_tokens_are_not_begun(tmp_path, opened):
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    scorer._model.token_time = FixedTokenTime(0.2, lowest=0.01)  # 25 pairs by 8 characters a token, 5 by their tokens
    scorer._model._session = None
    partial = await scorer.score_until("w1", ["w2 " * 6] * 25, Deadline.after_ms(10_000))
    assert partial.scores == (None,) * 25
    assert partial.needs_s is not None


async def test_too_few_scores_say_how_long_enough_of_them_take_without_other_work(tmp_path, opened):
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    scorer._model.token_time = FixedTokenTime(0.001, lowest=0.001)
    scorer._model._session = SlowSession(scorer._model._session)
    passages = ["w2 " * 6] * 16  # some 10 tokens each, so 160 ms of the one thread
    alone = await scorer.score_until("w1", passages, Deadline.after_ms(2_000))
    among = await asyncio.gather(*(scorer.score_until("w1", passages, Deadline.after_ms(300)) for _ in range(6)))
    assert alone.needs_s is None
    told = [one.needs_s for one in among if one.needs_s is not None]
    assert set(told) == {told[0]}
    assert told[0] == pytest.approx(0.05)  # 10 pairs of 20 characters, by 4 a token


async def test_prefixes_are_prepended_to_queries_and_passages(tmp_path, opened):
    profile = tiny_encoder(tmp_path, ids_as_hidden(), query_prefix="w1 ", passage_prefix="w2 ")
    encoder = opened(TextEncoder, profile, tmp_path)
    # The mean over [CLS]=2, the prefix, w9=19 and [SEP]=3.
    assert (await encoder.encode_query("w9")).tolist() == [(2 + 11 + 19 + 3) / 4]
    assert (await encoder.encode_passages(["w9"])).tolist() == [[(2 + 12 + 19 + 3) / 4]]


async def test_pooling_by_cls_takes_the_first_token(tmp_path, opened):
    encoder = opened(TextEncoder, tiny_encoder(tmp_path, ids_as_hidden(), pooling="cls"), tmp_path)
    assert (await encoder.encode_passages(["w9", "w1 w2"])).tolist() == [[2.0], [2.0]]


async def test_the_score_of_two_logits_is_their_difference(tmp_path, opened):
    nodes = [
        *sum_of_ids("relevant"),
        constant("one", np.array([[1.0]], np.float32)),
        node("Mul", ["relevant", "one"], "scaled"),
        node("Neg", ["scaled"], "irrelevant"),
        node("Concat", ["irrelevant", "relevant"], "logits", axis=1),
    ]
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, nodes, labels=2), tmp_path)
    # [CLS] w1 [SEP] w2 [SEP] sums to 2 + 11 + 3 + 12 + 3.
    assert await scorer.score("w1", ["w2"]) == (62.0,)


async def test_a_sigmoid_stays_finite_for_any_logit(tmp_path, opened):
    nodes = [
        *sum_of_ids("sum"),
        constant("shift", np.float32(-31.0)),
        constant("factor", np.float32(1000.0)),
        node("Add", ["sum", "shift"], "shifted"),
        node("Mul", ["shifted", "factor"], "logits"),
    ]
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, nodes, activation="sigmoid"), tmp_path)
    assert await scorer.score("w1", ["w1", "w2", "w3"]) == (0.0, 0.5, 1.0)


async def test_a_graph_with_dynamic_quantisation_gets_one_unpadded_pair_a_call(tmp_path, opened):
    # The logit of every row is the number of tokens in its padded batch.
    nodes = [
        node("Size", ["input_ids"], "size"),
        *sum_of_ids("sum"),
        node("Sub", ["sum", "sum"], "zero"),
        node("Cast", ["size"], "tokens", to=1),
        node("Add", ["zero", "tokens"], "logits"),
    ]
    batched = opened(PairScorer, tiny_cross_encoder(tmp_path / "a", nodes), tmp_path / "a")
    alone = opened(PairScorer, tiny_cross_encoder(tmp_path / "b", nodes, precision="int8-dynamic"), tmp_path / "b")
    passages = ["w1", "w1 w2", "w1 w2 w3"]
    assert await batched.score("w1", passages) == (21.0, 21.0, 21.0)
    assert await alone.score("w1", passages) == (5.0, 6.0, 7.0)


async def test_a_result_that_is_not_finite_is_an_error_and_not_a_rank(tmp_path, opened):
    nodes = [
        *sum_of_ids("sum"),
        constant("shift", np.float32(-31.0)),
        node("Add", ["sum", "shift"], "shifted"),
        node("Log", ["shifted"], "logits"),
    ]
    scorer = opened(PairScorer, tiny_cross_encoder(tmp_path, nodes), tmp_path)
    assert np.isfinite(await scorer.score("w1", ["w3"])).all()
    with pytest.raises(ModelError, match="not finite"):
        await scorer.score("w1", ["w3", "w1"])


async def test_a_vector_of_length_zero_cannot_be_normalised(tmp_path, opened):
    nodes = [*ids_as_hidden()]
    nodes[-1].output[0] = "hidden"
    nodes += [constant("nought", np.float32(0.0)), node("Mul", ["hidden", "nought"], "last_hidden_state")]
    encoder = opened(TextEncoder, tiny_encoder(tmp_path, nodes, normalise=True), tmp_path)
    with pytest.raises(ModelError, match="not finite"):
        await encoder.encode_query("w1")
