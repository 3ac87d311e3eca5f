"""The promises of services/dense/encoder.py, as tests that every encoder must pass."""

import asyncio
import random
from itertools import pairwise

import numpy as np
import pytest

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.contracts.passages import Passages
from services.dense.encoder import DenseEncoder
from tests.support.passages import LONG, PASSAGES, QUERY, responsive_event_loop, soon
from tests.support.times import repeated_when_late


class EncoderSuite:
    """A subclass gives the `encoder` fixture."""

    async def test_a_query_is_one_fp32_vector_and_passages_one_row_each(self, encoder: DenseEncoder) -> None:
        query = await encoder.encode_query(QUERY, soon())
        passages = await encoder.encode_passages(PASSAGES, soon())
        assert (query.shape, query.dtype) == ((encoder.representation.dimension,), np.float32)
        assert (passages.shape, passages.dtype) == ((len(PASSAGES), encoder.representation.dimension), np.float32)
        assert np.isfinite(query).all()
        assert np.isfinite(passages).all()

    async def test_what_answers_the_query_is_nearer_than_what_does_not(self, encoder: DenseEncoder) -> None:
        query = await encoder.encode_query(QUERY, soon())
        scores = await encoder.encode_passages(PASSAGES[:2], soon()) @ query
        assert scores[0] > scores[1]

    async def test_a_vector_does_not_depend_on_the_texts_beside_it(self, encoder: DenseEncoder) -> None:
        together = dict(zip(PASSAGES, await encoder.encode_passages(PASSAGES, soon()), strict=True))
        some = random.Random(1).sample(PASSAGES, 3)
        for passage, vector in zip(some, await encoder.encode_passages(some, soon()), strict=True):
            assert vector == pytest.approx(together[passage], abs=1e-6)

    async def test_the_length_of_a_text_is_that_before_it_is_cut(self, encoder: DenseEncoder) -> None:
        lengths = await encoder.lengths(PASSAGES, "passage", soon())
        assert lengths[3] >= 400 > lengths[0] > lengths[1] > lengths[2] >= 0
        assert encoder.max_tokens > 0

    async def test_a_document_that_fits_is_one_passage(self, encoder: DenseEncoder) -> None:
        documents = [("Wheels", "Mend them."), ("", "Rocks fall."), ("Only a title", ""), ("", "")]
        cut = await encoder.cut(documents, Passages(tokens=16), soon())
        assert cut == [["Wheels Mend them."], ["Rocks fall."], ["Only a title"], [""]]

    async def test_a_long_document_is_cut_into_passages_with_its_title_in_front(self, encoder: DenseEncoder) -> None:
        words = [str(number) for number in range(100, 300)]
        passages = Passages(tokens=32, overlap=8)
        cut, short = await encoder.cut([("Wheels: how to", " ".join(words)), ("", "short")], passages, soon())
        assert short == ["short"]
        assert all(one.startswith(("Wheels: how to 1", "Wheels: how to 2")) for one in cut)
        assert max(await encoder.lengths(cut, "passage", soon())) <= 32
        assert set(words) <= set(" ".join(cut).split())
        for one, following in pairwise(cut):
            assert len(set(one.split()[3:]) & set(following.split()[3:])) >= 3

    @pytest.mark.integration  # takes seconds
    @pytest.mark.alone
    @repeated_when_late
    async def test_the_loop_turns_while_eight_megabytes_are_encoded_and_measured(self, encoder: DenseEncoder) -> None:
        async with responsive_event_loop():
            assert len(await encoder.encode_passages(LONG, soon())) == len(LONG)
        async with responsive_event_loop():
            assert min(await encoder.lengths(LONG, "passage", soon())) > 300_000

    async def test_a_passed_deadline_ends_the_work(self, encoder: DenseEncoder) -> None:
        with pytest.raises(DeadlineExceeded):
            await encoder.encode_passages(PASSAGES, Deadline.after_ms(0))
        with pytest.raises(DeadlineExceeded):
            await encoder.encode_query(QUERY, Deadline.after_ms(0))

    async def test_queries_and_passages_may_come_together(self, encoder: DenseEncoder) -> None:
        alone = await encoder.encode_query(QUERY, soon())
        _, query = await asyncio.gather(encoder.encode_passages(PASSAGES, soon()), encoder.encode_query(QUERY, soon()))
        assert query == pytest.approx(alone, abs=1e-6)

    async def test_the_stamp_names_the_model_and_its_dimension(self, encoder: DenseEncoder) -> None:
        assert encoder.stamp["model"]
        assert encoder.stamp["weights_sha256"]
        assert encoder.stamp["dimension"] == str(encoder.representation.dimension)
