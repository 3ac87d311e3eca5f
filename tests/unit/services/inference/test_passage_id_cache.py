"""Checks that cached token ids equal new ones, and that the cache stays within its bytes."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.inference.model_tokenizer import ModelTokenizer
from services.inference.pair_scorer import ENTRY_BYTES, PassageIdCache
from services.inference.profiles import TOKENIZER
from tests.support.models import CROSS_ENCODER, fetched

LIMIT = 24
TEXTS = st.text(max_size=200) | st.sampled_from(["", "chain slip " * 30, "\ud800", "naïve 日本 🙂", "a\0b"])


@pytest.fixture(scope="module")
def tokens():
    return ModelTokenizer(fetched(CROSS_ENCODER) / TOKENIZER, LIMIT)


@pytest.fixture(scope="module")
def cached(tokens):
    # Room for some ten passages, so that most are evicted between two examples.
    return PassageIdCache(tokens.ids, 3_000, LIMIT)


@settings(deadline=None)
@given(query=TEXTS, passages=st.lists(TEXTS, max_size=8))
def test_pairs_of_cached_ids_equal_those_of_new_ones(tokens, cached, query, passages):
    (first,) = tokens.ids([query])
    first = first[:LIMIT]
    fresh = [tokens.pair(first, ids) for ids in tokens.ids(passages)]
    for _ in range(2):
        assert [tokens.pair(first, ids) for ids in cached.token_ids(passages)] == fresh
    assert cached.used_bytes <= 3_000


def test_a_passage_is_tokenised_again_only_after_its_eviction():
    asked: list[str] = []

    def tokenise(texts):
        asked.extend(texts)
        return [[len(text)] * 10 for text in texts]

    ids = PassageIdCache(tokenise, 2 * (ENTRY_BYTES + 20), 100)
    ids.token_ids(["a", "bb"])
    ids.token_ids(["a"])
    ids.token_ids(["ccc"])  # evicts bb, the least recently used
    assert ids.token_ids(["a", "bb", "ccc"]) == [[1] * 10, [2] * 10, [3] * 10]
    assert asked == ["a", "bb", "ccc", "bb"]
    assert ids.used_bytes == 2 * (ENTRY_BYTES + 20)


def test_a_call_may_ask_for_more_ids_than_are_usual():
    ids = PassageIdCache(lambda texts: [list(range(50))] * len(texts), 10_000, 10)
    for _ in range(2):
        assert ids.token_ids(["a"]) == [list(range(10))]
        assert ids.token_ids(["a"], 40) == [list(range(40))]


def test_ids_above_16_bits_are_not_truncated():
    assert PassageIdCache(lambda texts: [[250_001, 7]], 10_000, 10).token_ids(["a"]) == [[250_001, 7]]


def test_threads_can_share_the_cache(tokens):
    texts = [f"passage {number} about chains" for number in range(60)]
    fresh = dict(zip(texts, tokens.ids(texts), strict=True))
    ids = PassageIdCache(tokens.ids, 5_000, LIMIT)

    def ask(seed: int) -> bool:
        some = random.Random(seed).sample(texts, 20)
        return ids.token_ids(some) == [fresh[text] for text in some]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(40)))
    assert ids.used_bytes <= 5_000
