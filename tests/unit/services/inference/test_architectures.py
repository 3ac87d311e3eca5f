"""Checks graphs and tokenizers of other families than BERT, built like exports of RoBERTa, XLM-R and DeBERTa-v2."""

import json

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE, Unigram
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from tokenizers.processors import RobertaProcessing, TemplateProcessing

from services.inference.digests import file_sha256
from services.inference.model_tokenizer import ModelTokenizer, Row
from services.inference.open_model import Engine
from services.inference.pair_scorer import PairScorer
from services.inference.profiles import CONFIG, TOKENIZER
from services.inference.session import Session
from tests.support.models import constant, node, tiny_cross_encoder

LETTERS = "abcdefgh"


def xlm_roberta(path):
    """Writes SentencePiece pieces with a Metaspace; <s> a </s></s> b </s>; <pad> is 1, and there is one segment."""
    pieces = ["<s>", "<pad>", "</s>", "<unk>", "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(Unigram([(piece, -float(place)) for place, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = Metaspace()
    tokenizer.post_processor = TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.save(str(path))


def roberta(path):
    """Writes a byte-level BPE with RoBERTa's own post-processor."""
    words = ["<s>", "<pad>", "</s>", "<unk>", *LETTERS, "Ġ", *(f"Ġ{letter}" for letter in LETTERS)]
    merges = [("Ġ", letter) for letter in LETTERS]
    tokenizer = Tokenizer(BPE({word: place for place, word in enumerate(words)}, merges, unk_token="<unk>"))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer.save(str(path))


def deberta_v2(path):
    """Writes SentencePiece pieces with BERT's template; [PAD] is 0."""
    pieces = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "▁", *LETTERS, *(f"▁{letter}" for letter in LETTERS)]
    tokenizer = Tokenizer(Unigram([(piece, -float(place)) for place, piece in enumerate(pieces)], unk_id=3))
    tokenizer.pre_tokenizer = Metaspace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    tokenizer.save(str(path))


@pytest.mark.parametrize("write", [xlm_roberta, roberta, deberta_v2])
@pytest.mark.parametrize("limit", [8, 9, 64])
def test_rows_equal_those_of_the_library_with_every_template(tmp_path, write, limit):
    write(tmp_path / TOKENIZER)
    library = Tokenizer.from_file(str(tmp_path / TOKENIZER))
    library.enable_truncation(limit, strategy="longest_first")
    tokens = ModelTokenizer(tmp_path / TOKENIZER, limit)
    for first, second in [("a b", "c d e f g"), ("a b c d e f", "g h"), ("", "b"), ("a", ""), ("ab c", "de")]:
        expected = library.encode(first, second)
        row = tokens.pair(*tokens.ids([first, second]))
        assert (row.ids, row.types) == (expected.ids, expected.type_ids)
        assert tokens.single(tokens.ids([second])[0]).ids == library.encode(second).ids


def roberta_nodes(pad=1):
    """Builds the sum of positions, counted as in RoBERTa's graphs: over ids that are not the padding id."""
    return [
        constant("pad", np.int64(pad)),
        node("Equal", ["input_ids", "pad"], "padding"),
        node("Not", ["padding"], "there"),
        node("Cast", ["there"], "ones", to=7),
        constant("along", np.int64(1)),
        node("CumSum", ["ones", "along"], "counted"),
        node("Mul", ["counted", "ones"], "kept"),
        node("Add", ["kept", "pad"], "positions"),
        # The table of positions is as long as the longest row, so that counting a padded token is out of range.
        constant("table", np.arange(2 + 6, dtype=np.float32)),
        node("Gather", ["table", "positions"], "values"),
        node("Cast", ["attention_mask"], "mask", to=1),
        node("Mul", ["values", "mask"], "masked"),
        constant("axis", np.array([1], np.int64)),
        node("ReduceSum", ["masked", "axis"], "logits", keepdims=1),
    ]


def as_roberta(folder, profile):
    """Writes RoBERTa's config and tokenizer into the folder, and returns its profile."""
    (folder / CONFIG).write_text(json.dumps({"model_type": "xlm-roberta", "pad_token_id": 1}))
    xlm_roberta(folder / TOKENIZER)
    return profile.model_copy(update={"files": {name: file_sha256(folder / name) for name in profile.files}})


def test_padding_does_not_change_positions_that_a_graph_counts_from_its_ids(tmp_path):
    profile = as_roberta(tmp_path, tiny_cross_encoder(tmp_path, roberta_nodes(), segments=False))
    session = Session(profile, tmp_path)
    long, short = Row([0, 5, 6, 7, 8, 2], [0] * 6), Row([0, 5, 2], [0] * 3)
    assert session.run([long, short]).tolist() == [[27.0], [9.0]] == [*session.run([long]).tolist(), [9.0]]


async def test_a_graph_without_segments_scores_pairs(tmp_path):
    profile = as_roberta(tmp_path, tiny_cross_encoder(tmp_path, roberta_nodes(), segments=False, max_tokens=6))
    scorer = PairScorer(profile, tmp_path, Engine(threads=1))
    try:
        # <s> a </s></s> b </s> and, cut, the same length again.
        assert await scorer.score("a", ["b", "b c d"]) == (27.0, 27.0)
    finally:
        await scorer.close()
