"""Words are divided as the tokenizers library divides them, and read from its file."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from evaluator.errors import EvaluationError
from evaluator.expansion.word_pieces import pieces_of, read_vocabulary

PIECES = ["[UNK]", "chain", "##s", "oil", "##ed", "cafe", "o", "neil", "3", "14", "'", ".", "-", "un", "##oil", "中"]


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
