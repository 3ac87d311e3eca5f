"""A word's frequency is half its count and half its weight, and words divide as the lexical service divides them."""

from collections import Counter
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from evaluator.errors import EvaluationError
from evaluator.expansion.deepct import pieces_of, read_vocabulary, word_frequencies
from services.contracts.expansions import WordFrequencies
from services.lexical.analysis import words_of

PIECES = ["[UNK]", "chain", "##s", "oil", "##ed", "cafe", "o", "neil", "3", "14", "'", ".", "-", "un", "##oil", "中"]
NUMBERS = {"oil": (1,), "chain": (2, 3), "dry": ()}


def pieces(word: str) -> tuple[int, ...]:
    return NUMBERS.get(word, ())


def test_a_number_with_a_narrow_space_is_written_as_two_words() -> None:
    assert word_frequencies("10\u202f000", {}, pieces) == "10|10 000|10"


def test_half_of_a_frequency_is_the_count_and_half_the_weight() -> None:
    # Weights of the words: 1, 2 and 0; the mean is 1.
    assert word_frequencies("Oil chain oil, dry", {1: 1.0, 2: 0.5, 3: 2.0}, pieces) == "Oil|20 chain|15 dry|5"


@pytest.mark.parametrize("weights", [{}, {9: 1.0}])
def test_words_without_any_weight_keep_their_counts(weights: dict[int, float]) -> None:
    assert word_frequencies("oil oil chain", weights, pieces) == "oil|20 chain|10"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "…|!",
        "The Dog's dogs WERE cafe\u0301 Straße İzmir O’Neil’s U.S.A. 3.14 1,000 10:30 a,b state-of-the-art km/h",
        'हिन्दी भाषा நான் ọjọ́ كِتاب العَرَبِيَّةُ ภาษาไทย 👍🏽 👩\u200d💻 ΣΟΦΙΑΣ ___ צה"ל Ա՛բ',
        "snake_case 中文の カタカナ foo,bar a|b 1.b end. x:y;z",
    ],
)
def test_the_words_are_those_of_the_lexical_service(text: str) -> None:
    words = WordFrequencies(model="toy@0123456789ab", words=word_frequencies(text, {}, pieces))
    counts: Counter[str] = Counter()
    for word, times in words.frequencies():
        for term in words_of(word, "english"):
            counts[term] += times
    assert counts == {term: 10 * count for term, count in Counter(words_of(text, "english")).items()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    vocabulary = {piece: number for number, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


@pytest.mark.parametrize(
    "word", ["Chains", "unoiled", "Café", "O'Neil", "3.14", "oil-chain", "unoily", "zebra", "", "中", "oil" * 40]
)
def test_pieces_are_those_of_the_tokenizers_library(file: Path, word: str) -> None:
    library = Tokenizer.from_file(str(file)).encode(word)
    marks = {"[UNK]", "'", ".", "-"}  # these weigh nothing
    expected = [number for number, piece in zip(library.ids, library.tokens, strict=True) if piece not in marks]
    assert pieces_of(word, read_vocabulary(file)) == expected


def test_a_file_without_word_pieces_is_refused_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"model": {"vocab": [["a", -1.0]]}}')
    for path in (tmp_path / "tokenizer.json", tmp_path / "none.json"):
        with pytest.raises(EvaluationError, match=path.name):
            read_vocabulary(path)
