"""Every relevant document that is missing from the first hits has exactly one fate."""

from collections.abc import Mapping, Sequence

import pytest

from evaluator.attribution.attribution_report import ArmFates
from evaluator.attribution.candidates import ArmCandidates, QueryCandidates
from evaluator.attribution.losses import DocumentVerdict, QueryFates
from services.contracts.pipelines import Pipeline
from services.contracts.query import Degradation, StageCandidates
from services.contracts.scored import Scored

LEXICAL = {"kind": "retrieve", "id": "bm25", "backend": "lexical", "top": 4}
DENSE = {"kind": "retrieve", "id": "dense", "backend": "dense", "top": 4}
FUSE = {"kind": "fuse", "id": "fuse", "inputs": [LEXICAL, DENSE]}
RERANK = {"kind": "rerank", "id": "rerank", "top": 3}
CUT = {"kind": "cut", "id": "cut", "top": 3}
TOP = 2


def given(ids: str, scored: str | None = None) -> StageCandidates:
    """A stage that gave these documents, a letter each, best first; `scored`: those that its model scored."""
    ranking = tuple(Scored(one, float(-rank)) for rank, one in enumerate(ids))
    if scored is None:
        return StageCandidates(ranking=ranking)
    return StageCandidates(ranking=ranking, model_scores=dict.fromkeys(scored, 1.0), weight=1.0)


def fate(
    stages: Sequence[Mapping[str, object]],
    own: dict[str, StageCandidates],
    *,
    document: str = "x",
    hits: str = "ab",
    legs: dict[str, StageCandidates] | None = None,
    exact: dict[str, StageCandidates] | None = None,
) -> DocumentVerdict:
    pipeline = Pipeline.model_validate({"name": "p", "stages": list(stages)})
    arm = ArmCandidates(hits=tuple(hits), stages=own)
    line = QueryCandidates(query="q", arms={"p": arm}, legs=legs or {}, exact=exact or {})
    return QueryFates(pipeline, line, "p", TOP).of(document)


def told(verdict: DocumentVerdict) -> tuple[str, str]:
    return verdict.fate, verdict.stage


def test_a_document_among_the_first_hits_is_found() -> None:
    assert told(fate([LEXICAL], {"bm25": given("xabc")}, hits="xa")) == ("found", "answer")


def test_a_document_that_no_leg_has_at_any_depth_is_in_no_leg() -> None:
    assert told(fate([LEXICAL], {"bm25": given("abcd")}, legs={"lexical": given("abcde")})) == ("in no leg", "bm25")


def test_a_document_that_a_leg_has_further_down_is_below_its_depth() -> None:
    deep = {"lexical": given("abcde"), "dense": given("abcdx")}
    found = fate([FUSE], {"bm25": given("abcd"), "dense": given("abcd"), "fuse": given("abcd")}, legs=deep)
    assert told(found) == ("below a leg's depth", "dense")


def test_a_document_that_only_the_exact_search_has_within_the_depth_is_lost_by_the_index() -> None:
    found = fate([DENSE], {"dense": given("abcd")}, legs={"dense": given("abcd")}, exact={"dense": given("axbc")})
    assert told(found) == ("lost by the approximate index", "dense")


def test_a_document_that_the_exact_search_has_below_the_depth_is_below_it() -> None:
    found = fate([DENSE], {"dense": given("abcd")}, legs={"dense": given("abcd")}, exact={"dense": given("abcdx")})
    assert told(found) == ("below a leg's depth", "dense")


def test_a_document_that_fusion_moved_out_names_those_that_rose_above_it() -> None:
    own = {"bm25": given("axbc"), "dense": given("bcad"), "fuse": given("abcx")}
    found = fate([FUSE], own)
    assert told(found) == ("demoted by fusion", "fuse")
    assert found.passed_by == ("b",)
    assert found.ranks == {"bm25": 2, "fuse": 4}


def test_the_re_ranker_that_brings_a_document_back_makes_fusion_no_loss() -> None:
    own = {"bm25": given("axbc"), "dense": given("bcad"), "fuse": given("abxc"), "rerank": given("xabc", "abx")}
    assert told(fate([FUSE, RERANK], own, hits="xa")) == ("found", "answer")


def test_a_document_that_the_re_ranker_moved_out_was_demoted_by_it() -> None:
    own = {"bm25": given("axbc"), "rerank": given("abxc", "axb")}
    assert told(fate([LEXICAL, RERANK], own)) == ("demoted by the re-ranker", "rerank")


def test_a_document_that_the_re_ranker_lowered_further_was_demoted_by_it() -> None:
    own = {"bm25": given("abxc"), "rerank": given("bacx", "abx")}
    assert told(fate([LEXICAL, RERANK], own, hits="ba")) == ("demoted by the re-ranker", "rerank")


def test_a_document_that_the_re_ranker_did_not_score_is_below_its_depth() -> None:
    own = {"bm25": given("abcx"), "rerank": given("bacx", "abc")}
    assert told(fate([LEXICAL, RERANK], own, hits="ba")) == ("below the re-ranker's depth", "rerank")


def test_a_document_that_a_cut_removed_is_cut_there() -> None:
    own = {"bm25": given("abcx"), "cut": given("abc"), "rerank": given("abc", "abc")}
    assert told(fate([LEXICAL, CUT, RERANK], own)) == ("cut", "cut")


def test_a_candidate_below_the_end_of_the_answer_is_cut_by_it() -> None:
    assert told(fate([LEXICAL], {"bm25": given("abxc")})) == ("cut", "answer")


def test_a_document_of_a_query_without_an_answer_is_lost_with_it() -> None:
    pipeline = Pipeline.model_validate({"name": "p", "stages": [LEXICAL]})
    line = QueryCandidates(query="q", arms={"p": ArmCandidates(error="timeout")})
    assert QueryFates(pipeline, line, "p", TOP).of("x").fate == "query lost"


def test_a_document_that_only_the_failed_leg_would_have_given_is_lost_with_that_leg() -> None:
    own = {"bm25": given("abcd"), "fuse": given("abcd")}
    assert told(fate([FUSE], own, legs={"dense": given("bxcd")})) == ("leg failed", "dense")


def test_a_candidate_that_the_failed_leg_would_have_given_too_is_lost_with_that_leg() -> None:
    own = {"bm25": given("abxc"), "fuse": given("abxc")}
    assert told(fate([FUSE], own, legs={"dense": given("xbcd")})) == ("leg failed", "dense")


def test_a_leg_that_failed_in_the_answer_and_alone_may_have_had_the_document() -> None:
    assert told(fate([FUSE], {"bm25": given("abcd"), "fuse": given("abcd")})) == ("leg failed", "dense")


@pytest.mark.parametrize(
    ("alone", "expected"), [("abcdx", ("below a leg's depth", "dense")), ("abcd", ("in no leg", "bm25"))]
)
def test_a_failed_leg_that_would_not_have_given_the_document_did_not_lose_it(
    alone: str, expected: tuple[str, str]
) -> None:
    own = {"bm25": given("abcd"), "fuse": given("abcd")}
    assert told(fate([FUSE], own, legs={"dense": given(alone)})) == expected


def test_a_document_that_a_skipped_re_ranker_left_outside_is_lost_by_the_skip() -> None:
    own = {"bm25": given("abxc"), "rerank": given("abxc")}  # it failed: no scores, the order as it was
    assert told(fate([LEXICAL, RERANK], own)) == ("re-ranker skipped", "rerank")


def test_a_document_that_had_no_score_when_time_ran_out_is_lost_by_the_skip() -> None:
    own = {"bm25": given("axbc"), "rerank": given("abxc", "ab")}
    found = fate([LEXICAL, RERANK], own)
    assert told(found) == ("re-ranker skipped", "rerank")
    assert found.passed_by == ("b",)


def test_a_document_below_the_depth_of_a_skipped_re_ranker_is_below_its_depth() -> None:
    own = {"bm25": given("abcx"), "rerank": given("abcx")}
    assert told(fate([LEXICAL, RERANK], own)) == ("below the re-ranker's depth", "rerank")


def test_a_document_that_a_re_ranker_raised_but_not_far_enough_is_cut() -> None:
    own = {"bm25": given("abcx"), "rerank": given("abxc", "abcx")}
    assert told(fate([LEXICAL, {**RERANK, "top": 4}], own)) == ("cut", "answer")


def test_fates_of_degraded_answers_add_up_to_the_relevant_documents() -> None:
    pipeline = Pipeline.model_validate({"name": "p", "stages": [FUSE, RERANK]})
    fates, documents = ArmFates("p", pipeline, TOP), "abcdexyz"
    own = {"bm25": given("abcd"), "fuse": given("abcd"), "rerank": given("abcd")}
    told_so = (Degradation(stage="dense", reason="timeout", detail="", done=0, of=1),)
    arms = {"p": ArmCandidates(hits=("a", "b"), stages=own, degraded=told_so)}
    fates.add(QueryCandidates(query="q", arms=arms, legs={"dense": given("exyc")}), dict.fromkeys(documents, 1))
    figures = fates.attribution({"q": dict.fromkeys(documents, 1)}, ["q"], "nDCG@2", {"q": ["a", "b"]})
    assert {fate: count for fate, count in figures.fates.items() if count} == {
        "found": 2,  # a, b
        "leg failed": 4,  # c, e, x, y
        "in no leg": 1,  # z
        "below the re-ranker's depth": 1,  # d
    }
    assert (sum(figures.fates.values()), figures.degraded) == (figures.relevant, 1)
    assert sum(step.added for step in figures.waterfall) == pytest.approx(figures.ndcg, abs=1e-9)
