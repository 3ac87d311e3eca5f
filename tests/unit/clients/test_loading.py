"""Batches of a load stay within what a gateway and its engines take."""

import pytest

from retrieval_client import RetrievalError, loading


def test_a_document_that_no_gateway_takes_is_named() -> None:
    with pytest.raises(RetrievalError, match=r"document 'giant': 8000\d\d\d bytes; at most 7500000 can be sent"):
        next(loading.Loading("c", None, None).batches([{"id": "giant", "text": "x" * 8_000_000}]))


def test_a_batch_counts_words_as_often_as_an_engine_repeats_them() -> None:
    expansions = {"deepct": {"model": "m@0123456789ab", "words": "chain|150000 oil|9"}}  # 900,036 characters
    documents = [{"id": f"{n}", "expansions": expansions} if n < 20 else {"id": f"{n}"} for n in range(40)]
    batches = loading.Loading("c", None, None).batches(documents)
    assert [len(batch) for batch in batches] == [8, 8, 24]


def test_a_batch_stays_within_what_a_gateway_takes() -> None:
    vectors = {"dense": {"model": "m", "dense": [0.5] * 1_000}}
    documents = [{"id": f"{n}", "text": "x" * 100_000 if n % 2 else "y", "vectors": vectors} for n in range(500)]
    load = loading.Loading("c", None, None)
    load._documents = loading.MOST_BATCH_DOCUMENTS
    batches = [*load.batches(documents)]
    assert sum(map(len, batches)) == 500
    assert max(sum(map(len, batch)) + len(batch) for batch in batches) < 8_000_000
    assert max(sum(one.count(b",") + one.count(b"[") + one.count(b"{") for one in batch) for batch in batches) < 100_000
