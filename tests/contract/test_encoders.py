"""Every encoder keeps the promises of the port; and what is particular to the one that serves."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.dense.app import open_encoder
from services.dense.encoder import DenseEncoder
from services.dense.encoder_cached import CachedEncoder, QueryVectorCache
from services.dense.encoder_hashing import HashingEncoder
from services.dense.settings import DenseSettings
from services.inference.profiles import MODELS_FILE, load_encoder
from services.inference.text_encoder import stamp_of
from tests.contract.encoder import EncoderSuite
from tests.support.models import ENCODER, fetched
from tests.support.passages import PASSAGES, QUERY, soon
from tests.support.stamps import ENTRIES, expect_each_in_the_stamp, other_tokenizer


class TestHashing(EncoderSuite):
    @pytest.fixture
    def encoder(self) -> DenseEncoder:
        return HashingEncoder()


class TestCached(EncoderSuite):
    @pytest.fixture
    def encoder(self) -> DenseEncoder:
        return CachedEncoder(HashingEncoder(), QueryVectorCache(HashingEncoder.stamp, 10_000))


@pytest.fixture(scope="module")
def models() -> Path:
    """The folder that holds the models."""
    return fetched(ENCODER).parent


@pytest.fixture(scope="module")
def onnx(models: Path) -> Iterator[DenseEncoder]:
    encoder = open_encoder(DenseSettings(models=models))
    yield encoder
    asyncio.run(encoder.close())


class TestTextEncoder(EncoderSuite):
    @pytest.fixture
    def encoder(self, onnx: DenseEncoder) -> DenseEncoder:
        return onnx


async def test_a_query_does_not_wait_for_the_passages_before_it(onnx: DenseEncoder) -> None:
    start = time.perf_counter()
    passages = asyncio.create_task(onnx.encode_passages(PASSAGES * 12, soon()))
    await asyncio.sleep(0.05)
    await onnx.encode_query(QUERY, soon())
    query_done = time.perf_counter() - start
    assert not passages.done()
    await passages
    assert query_done < (time.perf_counter() - start) / 2


def test_everything_that_decides_a_vector_is_in_the_stamp() -> None:
    profile = load_encoder(MODELS_FILE, ENCODER)
    stamp = stamp_of(profile, "f" * 64)
    assert (stamp["pooling"], stamp["max_tokens"], stamp["normalise"]) == ("mean", "256", "true")
    deciding = {
        "name": "another",
        "files": other_tokenizer(profile),
        "max_tokens": 9,
        "precision": "int8-static",
        "session_entries": ENTRIES,
        "dimension": 128,
        "pooling": "cls",
        "normalise": False,
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
        "query_graph": "config.json",
    }
    expect_each_in_the_stamp(profile, lambda one: stamp_of(one, "f" * 64), deciding)
    assert stamp_of(profile, "0" * 64) != stamp


async def test_a_cached_vector_of_the_real_model_equals_a_new_one_in_every_bit(onnx: DenseEncoder) -> None:
    cached = CachedEncoder(onnx, QueryVectorCache(onnx.stamp, 1_000_000))
    queries = (QUERY, "why", QUERY)
    fresh = [await onnx.encode_query(query, soon()) for query in queries]
    for _ in range(2):
        given = await asyncio.gather(*(cached.encode_query(query, soon()) for query in queries))
        assert [vector.tobytes() for vector in given] == [vector.tobytes() for vector in fresh]
