"""The promises of services/sparse/encoder.py, as tests that every encoder must pass."""

import asyncio
import random

import numpy as np
import pytest

from services.chassis.deadlines import Deadline
from services.chassis.errors import BadInput, DeadlineExceeded
from services.sparse.encoder import SparseEncoder
from services.storage.representation import Sparse, SparseVector, checked_vector
from services.vectorservice.encoder import ExplainingEncoder
from tests.support.passages import soon

# Of words that the small checkpoints know.
PASSAGES = ("w1 w2 w3", "w4 w5", "", "w1 w6 " * 200, "w7 w8 w9 w0 w1")
QUERY = "w1 w2"


def product(query: SparseVector, document: SparseVector) -> float:
    _, left, right = np.intersect1d(query.terms, document.terms, return_indices=True)
    return float(query.weights[left].astype(np.float64) @ document.weights[right].astype(np.float64))


class SparseEncoderSuite:
    """A subclass gives the `encoder` fixture."""

    async def test_vectors_are_such_as_stores_keep_with_weights_above_0(self, encoder: SparseEncoder) -> None:
        vectors = [await encoder.encode_query(QUERY, soon()), *await encoder.encode_passages(PASSAGES, soon())]
        assert encoder.representation == Sparse()
        assert len(vectors) == 1 + len(PASSAGES)
        for vector in vectors:
            checked_vector(vector, Sparse())
            assert (vector.weights > 0).all()
        assert vectors[0].terms.size

    async def test_a_vector_does_not_depend_on_the_texts_beside_it(self, encoder: SparseEncoder) -> None:
        together = dict(zip(PASSAGES, await encoder.encode_passages(PASSAGES, soon()), strict=True))
        some = random.Random(1).sample(PASSAGES, 3)
        for passage, vector in zip(some, await encoder.encode_passages(some, soon()), strict=True):
            assert vector.terms.tolist() == together[passage].terms.tolist()
            assert vector.weights == pytest.approx(together[passage].weights, abs=1e-6)

    async def test_matches_are_the_shared_terms_and_sum_up_to_the_score(self, encoder: SparseEncoder) -> None:
        assert isinstance(encoder, ExplainingEncoder)
        query = await encoder.encode_query(QUERY, soon())
        vectors = await encoder.encode_passages(PASSAGES, soon())
        for vector, found in zip(vectors, await encoder.explain(QUERY, PASSAGES, vectors, soon()), strict=True):
            assert sum(match.score for match in found) == pytest.approx(product(query, vector), abs=1e-6)
            assert [match.score for match in found] == sorted((match.score for match in found), reverse=True)
            assert all(match.score == match.query_weight * match.document_weight for match in found)
            assert all(match.query == match.document for match in found)
            assert len({match.query for match in found}) == len(np.intersect1d(query.terms, vector.terms))

    async def test_a_term_has_the_name_of_its_word(self, encoder: SparseEncoder) -> None:
        vectors = await encoder.encode_passages(("w1 w2",), soon())
        (found,) = await encoder.explain("w1 w2", ("w1 w2",), vectors, soon())
        assert {match.query for match in found} <= {f"w{number}" for number in range(10)} | {"a", "b"} | {
            f"#{number}" for number in range(6, 10)
        }

    async def test_vectors_of_other_representations_are_not_explained(self, encoder: SparseEncoder) -> None:
        with pytest.raises(BadInput):
            await encoder.explain(QUERY, ("w1",), [np.ones(4, dtype=np.float32)], soon())

    async def test_the_length_of_a_text_is_that_before_it_is_cut(self, encoder: SparseEncoder) -> None:
        lengths = await encoder.lengths(PASSAGES, soon())
        assert lengths[3] >= 400 > lengths[0] > lengths[1] > lengths[2] >= 0
        assert encoder.max_tokens > 0

    async def test_a_passed_deadline_ends_the_work(self, encoder: SparseEncoder) -> None:
        with pytest.raises(DeadlineExceeded):
            await encoder.encode_passages(PASSAGES, Deadline.after_ms(0))
        with pytest.raises(DeadlineExceeded):
            await encoder.encode_query(QUERY, Deadline.after_ms(0))

    async def test_queries_and_passages_may_come_together(self, encoder: SparseEncoder) -> None:
        alone = await encoder.encode_query(QUERY, soon())
        _, query = await asyncio.gather(encoder.encode_passages(PASSAGES, soon()), encoder.encode_query(QUERY, soon()))
        assert query.terms.tolist() == alone.terms.tolist()
        assert query.weights == pytest.approx(alone.weights, abs=1e-6)

    async def test_the_stamp_names_the_model(self, encoder: SparseEncoder) -> None:
        assert encoder.stamp["model"]
        assert encoder.stamp["weights_sha256"]
