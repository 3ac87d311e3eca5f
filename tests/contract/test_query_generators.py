"""Every generator of queries keeps the promises of the port; a T5 draws as its authors do."""

import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from evaluator.errors import EvaluationError
from services.inference.profiles import ROOT
from tests.support.tiny_t5 import write_tiny_t5
from workshop.doc2query.generation import open_generator
from workshop.doc2query.query_generator import QueryGenerator, drawn_token

SMOLLM2 = ROOT / ".models" / "smollm2-135m-instruct"


PASSAGE = "w1 w2 w3 w4 w5 w6 w7: a worn chain stretches, so the rider feels it skip over the teeth of new sprockets."
OTHER = "w11 w12 w13 w14: tubes lose air through the rubber, and a tyre that stood all winter is soft in spring."


class QueryGeneratorSuite(ABC):
    """Every promise of the port."""

    @abstractmethod
    def opened(self) -> QueryGenerator:
        """Opens the generator anew."""

    def test_queries_depend_on_the_passage_and_the_seed_and_on_nothing_before(self) -> None:
        generator = self.opened()
        first = generator.generate(PASSAGE, 5, 7)
        other = generator.generate(OTHER, 5, 7)
        assert len(first) == len(other) == 5
        assert list(generator.generate(PASSAGE, 5, 7)) == list(first)
        again = self.opened()
        assert list(again.generate(OTHER, 5, 7)) == list(other)
        assert list(again.generate(PASSAGE, 5, 8)) != list(first)
        assert set(first) != set(other)

    def test_a_long_passage_and_one_of_a_word_are_read(self) -> None:
        generator = self.opened()
        for passage in (f"{PASSAGE} " * 100, "w1"):
            assert len(generator.generate(passage, 2, 0)) == 2

    def test_the_weights_have_a_sha256_and_the_settings_a_text(self) -> None:
        generator = self.opened()
        assert len(generator.weights_sha256) == 64
        assert generator.settings


class TestT5(QueryGeneratorSuite):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.written = write_tiny_t5(tmp_path / "tiny-t5")

    def opened(self) -> QueryGenerator:
        return open_generator(self.written)

    def test_queries_are_of_the_words_that_the_decoder_prefers_and_stop_at_the_end_token(self) -> None:
        queries = self.opened().generate("w1 w2 w3", 200, 0)
        lengths = Counter(len(query.split()) for query in queries)
        assert {word for query in queries for word in query.split()} == {"w1", "w2", "w3"}
        # Three words and the end are equally probable.
        assert 30 <= lengths[0] <= 70
        assert max(lengths) < 64

    def test_the_hash_is_that_of_both_graphs_and_of_what_reads_and_writes_their_tokens(self) -> None:
        files = ("encoder_model.onnx", "decoder_model.onnx", "config.json", "tokenizer.json")
        whole = b"".join((self.written / name).read_bytes() for name in files)
        assert self.opened().weights_sha256 == hashlib.sha256(whole).hexdigest()

    @pytest.mark.parametrize("name", ["decoder_model.onnx", "tokenizer.json", "config.json"])
    def test_a_folder_with_a_faulty_file_is_named(self, name: str) -> None:
        (self.written / name).write_text("{}")
        with pytest.raises(EvaluationError, match="tiny-t5"):
            self.opened()

    def test_a_graph_with_other_inputs_is_refused_with_their_names(self) -> None:
        encoder = (self.written / "encoder_model.onnx").read_bytes()
        (self.written / "decoder_model.onnx").write_bytes(encoder)
        with pytest.raises(EvaluationError, match="attention_mask, input_ids"):
            self.opened()


class TestLlama(QueryGeneratorSuite):
    @pytest.fixture(autouse=True)
    def _installed(self) -> None:
        pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed: the extra `generate`")
        if not SMOLLM2.is_dir():
            pytest.skip(f"`make models MODELS={SMOLLM2.name}` was not run")

    def opened(self) -> QueryGenerator:
        return open_generator(SMOLLM2)

    def test_queries_stay_with_their_passage(self) -> None:
        queries = self.opened().generate("Rim brakes squeal when the pads are glazed or set flat to the rim.", 5, 0)
        assert all(query and "\n" not in query for query in queries)
        assert any(word in " ".join(queries).lower() for word in ("brake", "rim", "pad"))


def test_a_folder_without_a_model_is_refused_with_what_brings_one(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="make models MODELS=smollm2-135m-instruct"):
        open_generator(tmp_path)


@pytest.mark.skipif(find_spec("llama_cpp") is not None, reason="llama-cpp-python is installed")
def test_a_model_whose_package_is_not_installed_is_refused_with_where_to_read(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").touch()
    with pytest.raises(EvaluationError, match=r"llama_cpp is not installed.*README\.md"):
        open_generator(tmp_path)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_are_drawn_from_the_top_by_their_probability(temperature: float) -> None:
    logits = np.array([0.0, 3.0, 1.0, 2.0, -1.0], dtype=np.float32)
    random = np.random.default_rng(0)
    drawn = Counter(drawn_token(logits, 3, temperature, random) for _ in range(20_000))
    shares = {token: np.exp(float(logits[token]) / temperature) for token in (1, 2, 3)}
    for token, share in shares.items():
        assert drawn[token] / 20_000 == pytest.approx(share / sum(shares.values()), abs=0.02)
    assert set(drawn) == set(shares)
    assert {drawn_token(logits, 9, temperature, random) for _ in range(20_000)} == set(range(5))
