"""Every relevant document that is missing from the first hits has exactly one fate."""

from collections.abc import Sequence

import pytest

from evaluator.attribution.candidates import ArmCandidates, QueryCandidates
from evaluator.attribution.losses import DocumentVerdict, QueryFates
from services.contracts.pipelines import Pipeline
from services.contracts.query import StageCandidates
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
    stages: Sequence[dict[str, object]],
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


@pytest.mark.parametrize("document", list("abcdex"))
def test_a_stage_that_was_skipped_costs_no_document(document: str) -> None:
    own = {"bm25": given("axbc"), "fuse": given("axbc")}  # the other leg failed, and the re-ranker too
    assert fate([FUSE, RERANK], own, document=document, hits="ax").fate in ("found", "cut", "in no leg")
