"""The suite of generators of queries: a subclass opens one in `opened`."""

from abc import ABC, abstractmethod

from evaluator.expansion.query_generator import QueryGenerator

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
