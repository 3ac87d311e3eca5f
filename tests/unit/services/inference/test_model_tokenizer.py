"""Checks that rows equal those of the tokenizers library, truncated only at the limit of models.yaml."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import TOKENIZER, ModelError
from tests.support.models import CROSS_ENCODER, fetched, tiny_tokenizer

WORDS = st.lists(st.sampled_from([f"w{number}" for number in range(9)]), max_size=40).map(" ".join)


@pytest.fixture(scope="module")
def bert_file():
    return fetched(CROSS_ENCODER) / TOKENIZER


@pytest.fixture(scope="module")
def tiny_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / TOKENIZER
    tiny_tokenizer(path)
    return path


def reference(file, limit):
    """Opens the tokenizers library with its own truncation."""
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit, strategy="longest_first")
    return tokenizer


@settings(deadline=None)
@given(first=WORDS, second=WORDS, limit=st.integers(4, 60))
def test_a_pair_is_truncated_like_longest_first(tiny_file, first, second, limit):
    tokens = ModelTokenizer(tiny_file, limit)
    expected = reference(tiny_file, limit).encode(first, second)
    row = tokens.pair(*tokens.ids([first, second]))
    assert (row.ids, row.types) == (expected.ids, expected.type_ids)


@settings(deadline=None)
@given(text=WORDS, limit=st.integers(4, 60))
def test_a_single_text_is_truncated_at_its_end(tiny_file, text, limit):
    tokens = ModelTokenizer(tiny_file, limit)
    expected = reference(tiny_file, limit).encode(text)
    row = tokens.single(tokens.ids([text])[0])
    assert (row.ids, row.types) == (expected.ids, expected.type_ids)


def test_a_real_tokenizer_gives_the_rows_of_the_library(bert_file):
    query, passage = "Which gasket fits?", "The 8.5 mm gasket, naïvely: 日本 and 🙂; see unaffordability " * 30
    tokens, library = ModelTokenizer(bert_file, 64), reference(bert_file, 64)
    query_ids, passage_ids = tokens.ids([query, passage])
    assert tokens.pair(query_ids, passage_ids).ids == library.encode(query, passage).ids
    assert tokens.pair(passage_ids, query_ids).types == library.encode(passage, query).type_ids
    assert tokens.single(passage_ids).ids == library.encode(passage).ids


def test_each_token_says_which_characters_it_was_made_from(bert_file):
    tokens = ModelTokenizer(bert_file, 64)
    texts = ["Café: 🙂 unaffable", "", "a\0b"]
    located = tokens.located(texts)
    assert [ids for ids, _ in located] == tokens.ids(texts)
    assert [texts[0][start:end] for start, end in located[0][1]] == ["Café", ":", "🙂", "una", "ffa", "ble"]


def test_the_truncation_and_padding_saved_in_the_file_are_ignored(tmp_path):
    tiny_tokenizer(tmp_path / TOKENIZER)
    tokens = ModelTokenizer(tmp_path / TOKENIZER, 32)
    short, long = tokens.ids(["w1", " ".join(f"w{number}" for number in range(20))])
    assert tokens.single(short).ids == [2, 11, 3]
    assert len(tokens.pair(short, long).ids) == 24


def test_special_tokens_come_from_the_tokenizer_with_its_segments(tmp_path):
    tiny_tokenizer(tmp_path / TOKENIZER)
    row = ModelTokenizer(tmp_path / TOKENIZER, 32).pair([11, 12], [13])
    assert row.ids == [2, 11, 12, 3, 13, 3]
    assert row.types == [0, 0, 0, 0, 1, 1]


@pytest.mark.parametrize("text", ["a\0b", "lone \ud800 surrogate", "\udfff", "\ud83d\ude42", "", "\0"])
def test_no_string_that_python_can_hold_breaks_the_tokenizer(bert_file, text):
    tokens = ModelTokenizer(bert_file, 32)
    assert len(tokens.single(tokens.ids([text])[0]).ids) >= 2


def test_a_nul_separates_words_and_a_surrogate_pair_is_joined(bert_file):
    tokens = ModelTokenizer(bert_file, 32)
    assert tokens.ids(["a\0b", "smile \ud83d\ude42"]) == tokens.ids(["a b", "smile 🙂"])


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\xfe", b'{"version": "1.0", "model": {}}'])
def test_a_file_that_is_no_tokenizer_is_refused_by_its_path(tmp_path, content):
    (tmp_path / TOKENIZER).write_bytes(content)
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        ModelTokenizer(tmp_path / TOKENIZER, 32)
