"""The parts of the re-ranker's training that need no torch: what is read, what is drawn, and how weights travel."""

import gzip
import json
import random
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from services.inference.profiles import GRAPH, MODELS_FILE
from tests.support.models import CROSS_ENCODER
from workshop.training.corpus import LABELLED, Topics, read_corpus
from workshop.training.distillation_target import DistillationTarget, features, fit_target
from workshop.training.export import cross_encoder_graph
from workshop.training.groups import epoch, sample_group
from workshop.training.mined_questions import MinedQuestion
from workshop.training.weigh import WEIGHTS, best_weights, first_stage, ndcg, z_scores
from workshop.training.weights import Weights, read_weights

TARGET = DistillationTarget((17.0, 4.0, 0.5))
COMMITTED = MODELS_FILE.parent / CROSS_ENCODER / GRAPH


def line(candidates: int = 60, relevant: tuple[int, ...] = (3,)) -> MinedQuestion:
    draw = random.Random(candidates)
    return {
        "query": "why do brakes squeal",
        "file": "made-up",
        "held_out": False,
        "short": False,
        "relevant": list(relevant),
        "candidates": list(range(candidates)),
        "bm25": [draw.random() if place < 40 else None for place in range(candidates)],
        "teachers": [[draw.random() for _ in range(candidates)] for _ in range(2)],
    }


def written(folder: Path, rows: int = 3) -> Path:
    for file in LABELLED:
        with gzip.open(folder / f"{file}.jsonl.gz", "wt") as out:
            for place in range(rows):
                row = {
                    "query": f"{file} question {place}",
                    "positive": f"About {file}, number {place}. It has a sentence long enough to ask with.",
                    "negatives": [f"Something else of {file}, number {place}."],
                }
                out.write(json.dumps(row) + "\n")
    return folder


def test_neither_in_domain_file_can_be_learned_from() -> None:
    assert not {file for file in LABELLED if "nfcorpus" in file or "scifact" in file}


def test_the_same_seed_reads_the_same_corpus_and_a_question_cut_out_of_a_passage_knows_which(tmp_path: Path) -> None:
    corpus = read_corpus(written(tmp_path), 17)
    assert read_corpus(tmp_path, 17) == corpus
    cut = [question for question in corpus.questions if question.cut_from is not None]
    assert cut
    for question in cut:
        assert question.cut_from is not None
        assert question.text in corpus.passages[question.cut_from]


SAID = [
    "What is a hub? A hub gear is shifted at rest. Gears of a hub are sealed.",
    "What is a chain? A chain wears by dirt. Wash a chain; a hub gear is shifted.",
    "What is a rim? A rim carries the tyre. Hub gears, a hub gear: shifted.",
    *(f"What is a part? It is number {number}." for number in range(97)),
]


def test_a_topic_is_neighbouring_words_that_the_passage_repeats() -> None:
    topics = Topics(SAID)
    found = {topics.of_passage(SAID[0], random.Random(seed)) for seed in range(40)} - {None}
    assert found == {"hub", "hub gear"}
    assert topics.of_passage(SAID[-1], random.Random(1)) is None  # words that are common, or rare


def test_a_shortened_question_keeps_the_words_that_carry_its_topic() -> None:
    topics = Topics(SAID)
    assert topics.of_question("What is a chain rim?") == "chain rim"
    assert topics.of_question("chain rim") is None
    assert topics.of_question("What is a?") is None
    assert topics.of_question("What is a chain rim tyre hub gear dirt?") is None


def test_a_shortened_question_is_held_out_with_the_whole_one(tmp_path: Path) -> None:
    corpus = read_corpus(written(tmp_path, rows=60), 17)
    whole = [question for question in corpus.questions if not question.short]
    shortened = [question for question in corpus.questions if question.short and question.relevant]
    assert any(question.held_out for question in shortened)
    for question in shortened:
        assert any(
            one.relevant == question.relevant and one.held_out == question.held_out and question.text in one.text
            for one in whole
        )


def test_a_group_holds_its_positive_first_and_each_candidate_once() -> None:
    group = sample_group(line(), 8, TARGET, random.Random(1))
    assert group is not None
    assert group.candidates[0] == 3
    assert len(set(group.candidates)) == 8
    assert group.label == 0
    unlabelled = sample_group(line(relevant=()), 8, TARGET, random.Random(1))
    assert unlabelled is not None
    assert (unlabelled.label, len(unlabelled.candidates)) == (None, 8)
    assert list(epoch([line(candidates=5)], 8, TARGET, random.Random(1))) == []  # too few


def test_the_target_is_a_distribution_that_follows_the_teachers_and_bm25() -> None:
    asked = line()
    group = sample_group(asked, 8, TARGET, random.Random(1))
    assert group is not None
    assert group.target.sum() == pytest.approx(1)
    summed = (features(asked) @ np.array(TARGET.shares))[list(group.candidates)]
    assert list(np.argsort(group.target)) == list(np.argsort(summed))


def test_what_bm25_did_not_find_counts_as_the_last_that_it_found() -> None:
    asked = line()
    scores = [score for score in asked["bm25"] if score is not None]
    lexical = features(asked)[:, -1]
    assert lexical[40:].tolist() == [lexical[scores.index(min(scores))]] * 20


@pytest.mark.parametrize("teller", [0, 1, 2], ids=["the first teacher", "the second teacher", "bm25"])
def test_the_shares_of_the_target_are_read_off_the_labels(teller: int) -> None:
    asked = [line(candidates) for candidates in range(41, 101)]
    for one in asked:
        one["relevant"] = [int(features(one)[:, teller].argmax())]
    shares = np.array(fit_target(asked).shares) * np.std(features(asked[0]), axis=0)
    assert int(shares.argmax()) == teller
    assert shares[teller] > 5 * np.abs(np.delete(shares, teller)).max()
    with pytest.raises(ValueError, match="No question has a label"):
        fit_target([line(relevant=())])


def test_weights_survive_the_way_into_a_graph_and_out_again() -> None:
    weights = read_weights(COMMITTED)
    again = weights_of_model(cross_encoder_graph(weights))
    assert again.keys() == weights.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(again[name], value)


def weights_of_model(model: onnx.ModelProto) -> Weights:
    """Through a real file, as training and serving do."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / GRAPH
        file.write_bytes(model.SerializeToString())
        return read_weights(file)


def test_a_hybrid_list_is_bm25_and_dense_fused_by_z_scores() -> None:
    asked = line(candidates=3)
    asked["candidates"], asked["bm25"] = [7, 8, 9], [2.0, None, 1.0]
    asked["teachers"] = [[0.0, 0.0, 0.0], [0.1, 0.3, 0.2]]
    assert first_stage(asked, "bm25") == [(2.0, 7), (1.0, 9)]
    scores, places = zip(*first_stage(asked, "hybrid"), strict=True)
    assert places == (8, 7, 9)
    spread = 1.5**0.5
    assert scores == pytest.approx((spread - 1, 1 - spread, -1))
    assert list(z_scores([2.0, 2.0])) == [0.0, 0.0]
    assert (ndcg([7, 3], {3}), ndcg([3, 7], {3}), ndcg([1, 2], {3})) == (pytest.approx(1 / np.log2(3)), 1, 0)


def test_the_safe_weight_is_the_lowest_that_cannot_be_told_from_the_best() -> None:
    weights = np.array(WEIGHTS)
    rising = np.minimum(weights, 0.5) + 0.001 * weights
    either_way = np.outer(np.tile([1, -1], 20), 0.2 * np.maximum(weights - 0.5, 0))
    assert best_weights([np.tile(rising, (40, 1))]) == (1.0, 1.0)
    assert best_weights([rising + either_way] * 3) == (1.0, 0.5)
