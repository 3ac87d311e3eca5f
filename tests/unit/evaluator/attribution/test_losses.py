"""Every relevant document that is missing from the first hits has exactly one fate."""

from collections.abc import Mapping, Sequence
from typing import Any

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
    ranking = tuple(Scored(identity, float(-rank)) for rank, identity in enumerate(ids))
    if scored is None:
        return StageCandidates(ranking=ranking)
    return StageCandidates(ranking=ranking, model_scores=dict.fromkeys(scored, 1.0), weight=1.0)


def fate(
    stages: Sequence[Mapping[str, object]],
    own: dict[str, StageCandidates],
    *,
    hits: str = "ab",
    legs: dict[str, StageCandidates] | None = None,
    exact: dict[str, StageCandidates] | None = None,
) -> DocumentVerdict:
    pipeline = Pipeline.model_validate({"name": "p", "stages": list(stages)})
    arm = ArmCandidates(hits=tuple(hits), stages=own)
    line = QueryCandidates(query="q", arms={"p": arm}, legs=legs or {}, exact=exact or {})
    return QueryFates(pipeline, line, "p", TOP).of("x")


DEEP_DENSE = {"lexical": given("abcde"), "dense": given("abcdx")}
SAME = {"bm25": given("abcd"), "dense": given("abcd"), "fuse": given("abcd")}
ONE_LEG = {"bm25": given("abcd"), "fuse": given("abcd")}  # dense failed


@pytest.mark.parametrize(
    ("stages", "own", "others", "expected"),
    [
        pytest.param([LEXICAL], {"bm25": given("xabc")}, {"hits": "xa"}, ("found", "answer"), id="found"),
        pytest.param(
            [LEXICAL], {"bm25": given("abcd")}, {"legs": {"lexical": given("abcde")}}, ("in no leg", "bm25"),
            id="no leg has it at any depth",
        ),
        pytest.param(
            [FUSE], SAME, {"legs": DEEP_DENSE}, ("below a leg's depth", "dense"), id="a leg has it further down"
        ),
        pytest.param(
            [DENSE], {"dense": given("abcd")}, {"legs": {"dense": given("abcd")}, "exact": {"dense": given("axbc")}},
            ("lost by the approximate index", "dense"), id="the exact search alone has it within the depth",
        ),
        pytest.param(
            [DENSE], {"dense": given("abcd")}, {"legs": {"dense": given("abcd")}, "exact": {"dense": given("abcdx")}},
            ("below a leg's depth", "dense"), id="the exact search has it below the depth",
        ),
        pytest.param(
            [FUSE, RERANK],
            {"bm25": given("axbc"), "dense": given("bcad"), "fuse": given("abxc"), "rerank": given("xabc", "abx")},
            {"hits": "xa"}, ("found", "answer"), id="the re-ranker brings back what fusion moved out",
        ),
        pytest.param(
            [LEXICAL, RERANK], {"bm25": given("axbc"), "rerank": given("abxc", "axb")}, {},
            ("demoted by the re-ranker", "rerank"), id="the re-ranker moves it out",
        ),
        pytest.param(
            [LEXICAL, RERANK], {"bm25": given("abxc"), "rerank": given("bacx", "abx")}, {"hits": "ba"},
            ("demoted by the re-ranker", "rerank"), id="the re-ranker lowers it further",
        ),
        pytest.param(
            [LEXICAL, RERANK], {"bm25": given("abcx"), "rerank": given("bacx", "abc")}, {"hits": "ba"},
            ("below the re-ranker's depth", "rerank"), id="the re-ranker does not score it",
        ),
        pytest.param(
            [LEXICAL, CUT, RERANK], {"bm25": given("abcx"), "cut": given("abc"), "rerank": given("abc", "abc")}, {},
            ("cut", "cut"), id="a cut removes it",
        ),
        pytest.param([LEXICAL], {"bm25": given("abxc")}, {}, ("cut", "answer"), id="the answer ends above it"),
        pytest.param(
            [FUSE], ONE_LEG, {"legs": {"dense": given("bxcd")}}, ("leg failed", "dense"),
            id="only the failed leg would have given it",
        ),
        pytest.param(
            [FUSE], {"bm25": given("abxc"), "fuse": given("abxc")}, {"legs": {"dense": given("xbcd")}},
            ("leg failed", "dense"), id="the failed leg would have given it too",
        ),
        pytest.param([FUSE], ONE_LEG, {}, ("leg failed", "dense"), id="the leg failed alone too"),
        pytest.param(
            [FUSE], ONE_LEG, {"legs": {"dense": given("abcdx")}}, ("below a leg's depth", "dense"),
            id="the failed leg has it further down",
        ),
        pytest.param(
            [FUSE], ONE_LEG, {"legs": {"dense": given("abcd")}}, ("in no leg", "bm25"), id="the failed leg lacks it too"
        ),
        pytest.param(
            [LEXICAL, RERANK], {"bm25": given("abxc"), "rerank": given("abxc")}, {}, ("re-ranker skipped", "rerank"),
            id="the re-ranker failed",
        ),
        pytest.param(
            [LEXICAL, RERANK], {"bm25": given("abcx"), "rerank": given("abcx")}, {},
            ("below the re-ranker's depth", "rerank"), id="it stood below the depth of a re-ranker that failed",
        ),
        pytest.param(
            [LEXICAL, {**RERANK, "top": 4}], {"bm25": given("abcx"), "rerank": given("abxc", "abcx")}, {},
            ("cut", "answer"), id="a re-ranker raises it, but not far enough",
        ),
    ],
)  # fmt: skip
def test_a_document_has_the_fate_and_the_stage_that_lost_it(
    stages: list[dict[str, object]], own: dict[str, StageCandidates], others: Any, expected: tuple[str, str]
) -> None:
    verdict = fate(stages, own, **others)
    assert (verdict.fate, verdict.stage) == expected


def test_a_demotion_names_the_documents_that_rose_above() -> None:
    fused = fate([FUSE], {"bm25": given("axbc"), "dense": given("bcad"), "fuse": given("abcx")})
    assert (fused.fate, fused.stage, fused.passed_by) == ("demoted by fusion", "fuse", ("b",))
    assert fused.ranks == {"bm25": 2, "fuse": 4}
    late = fate([LEXICAL, RERANK], {"bm25": given("axbc"), "rerank": given("abxc", "ab")})  # no time for x
    assert (late.fate, late.stage, late.passed_by) == ("re-ranker skipped", "rerank", ("b",))


def test_a_document_of_a_query_without_an_answer_is_lost_with_it() -> None:
    pipeline = Pipeline.model_validate({"name": "p", "stages": [LEXICAL]})
    line = QueryCandidates(query="q", arms={"p": ArmCandidates(error="timeout")})
    assert QueryFates(pipeline, line, "p", TOP).of("x").fate == "query lost"


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
