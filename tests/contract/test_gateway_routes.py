"""Checks the gateway's wire: every route, its reports, and clear refusals of invalid requests."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from gateway.search.catalog import parse_pipeline
from gateway.search.plan import PipelineError
from tests.support.backends import DECLARATION, DOCUMENTS, Stack, opened_stack

DEMO = "/v1/collections/demo"
MINE = {"build": "mine"}
RETRIEVE = {"kind": "retrieve", "backend": "lexical"}


@pytest.fixture
async def empty() -> AsyncIterator[Stack]:
    async with opened_stack(ingested=False) as stack:
        yield stack


async def post(stack: Stack, path: str, **body: object) -> Any:
    answer = await stack.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_new_collection_begins_with_generation_one_everywhere(empty: Stack) -> None:
    begun = (await empty.client.put(DEMO, json={**DECLARATION, **MINE})).json()
    assert begun == {"collection": "demo", "generation": "demo@1", "created": True, "live": None, "build": "mine"}
    assert list(empty.lexical.generations) == list(empty.dense.generations) == ["demo@1"]


async def test_beginning_the_same_again_goes_on_with_what_is_there(stack: Stack) -> None:
    begun = (await stack.client.put(DEMO, json=DECLARATION)).json()
    same = {"collection": "demo", "generation": "demo@1", "created": False, "live": "demo@1"}
    assert begun == {**same, "build": None}
    own = (await stack.client.put(DEMO, json={**DECLARATION, "build": "first-load"})).json()
    assert own == {**same, "build": "first-load"}


@pytest.mark.parametrize("change", [{"presets": ["anserini-flat"]}, {"new_generation": True}])
async def test_another_declaration_or_a_wish_builds_beside_the_live_one(
    stack: Stack, change: dict[str, object]
) -> None:
    begun = (await stack.client.put(DEMO, json={**DECLARATION, **change})).json()
    build = {"build": begun.pop("build")}
    assert begun == {"collection": "demo", "generation": "demo@2", "created": True, "live": "demo@1"}
    new = [{"id": "new", "text": "fruit of the new generation"}]
    await post(stack, f"{DEMO}/documents", documents=new, **build)
    assert "new" not in (await stack.search("fruit", "bm25")).text
    published = await post(stack, f"{DEMO}/publish", **build)
    assert (published["generation"], published["documents"]) == ("demo@2", 1)
    assert [hit["id"] for hit in (await stack.search("fruit", "bm25")).json()["hits"]] == ["new"]
    assert list(stack.lexical.generations) == list(stack.dense.generations) == ["demo@1", "demo@2"]


async def test_a_begin_that_reached_only_one_service_is_completed_by_the_next(empty: Stack) -> None:
    empty.wires["dense"].fault = "refused"
    assert (await empty.client.put(DEMO, json={**DECLARATION, **MINE})).status_code == 503
    empty.wires["dense"].fault = None
    assert (await empty.client.put(DEMO, json={**DECLARATION, **MINE})).status_code == 200
    assert list(empty.lexical.generations) == list(empty.dense.generations) == ["demo@1"]


async def test_a_live_generation_that_a_service_lacks_is_rebuilt_beside_it(stack: Stack) -> None:
    stack.lexical.generations.clear()  # another engine took its place
    begun = (await stack.client.put(DEMO, json=DECLARATION)).json()
    assert begun.pop("build")
    assert begun == {"collection": "demo", "generation": "demo@2", "created": True, "live": "demo@1"}
    assert (await stack.search("fruit", "hybrid")).json()["collection"] == "demo@1"


async def test_metadata_that_no_declaration_knows_is_named_by_the_report_at_once(stack: Stack) -> None:
    batch = [
        {"id": "a", "title": "", "metadata": {"kind": "fruit", "shelf": 3}},
        {"id": "b", "text": "", "metadata": {"aisle": "x"}},
    ]
    report = await post(stack, f"{DEMO}/documents", documents=batch)
    # The documents are kept whole, so the batch is complete; only filtering by these is impossible.
    assert (report["complete"], report["undeclared_metadata"]) == (True, ["aisle", "shelf"])
    found = await post(stack, f"{DEMO}/documents/get", ids=["a"])
    assert found["documents"][0]["metadata"] == {"kind": "fruit", "shelf": 3}
    assert (await post(stack, f"{DEMO}/documents", documents=list(DOCUMENTS)))["undeclared_metadata"] == []


async def test_a_report_names_a_bounded_number_of_undeclared_fields(stack: Stack) -> None:
    batch = [{"id": str(number), "text": "", "metadata": {f"field_{number:03}": 1}} for number in range(100)]
    named = (await post(stack, f"{DEMO}/documents", documents=batch))["undeclared_metadata"]
    assert named == [f"field_{number:03}" for number in range(32)]


async def test_documents_come_with_a_report_of_every_service(stack: Stack) -> None:
    report = await post(stack, f"{DEMO}/documents", documents=[*DOCUMENTS[:2], {"id": "x", "text": "a\x01b\x02"}])
    assert (report["collection"], report["complete"], report["documents"]) == ("demo@1", True, 3)
    assert report["stripped_characters"] == 2
    for outcome in report["services"]:
        assert outcome["status"] == "ok"
        assert (outcome["report"]["indexed"], outcome["report"]["unchanged"]) == (1, 2)
    assert {outcome["backend"] for outcome in report["services"]} == {"lexical", "dense"}


async def test_a_partial_success_is_visible_and_sending_again_completes_it(stack: Stack) -> None:
    stack.wires["dense"].fault = "refused"
    batch = {"documents": [{"id": "x", "text": "fruit"}]}
    report = await post(stack, f"{DEMO}/documents", **batch)
    assert report["complete"] is False
    assert {o["backend"]: o["status"] for o in report["services"]} == {"lexical": "ok", "dense": "failed"}
    stack.wires["dense"].fault = None
    publish = await stack.client.post(f"{DEMO}/publish", json={})
    assert publish.status_code == 409
    assert "lexical 6, dense 5" in publish.json()["detail"]
    assert (await post(stack, f"{DEMO}/documents", **batch))["complete"] is True
    assert (await post(stack, f"{DEMO}/publish"))["documents"] == 6


async def test_a_document_that_one_service_refuses_makes_the_batch_incomplete(stack: Stack) -> None:
    stack.dense.refuse_ids.add("x")
    report = await post(stack, f"{DEMO}/documents", documents=[{"id": "x", "text": ""}, {"id": "y", "text": ""}])
    assert report["complete"] is False
    errors = {o["backend"]: o["report"]["errors"] for o in report["services"]}
    assert errors == {"lexical": [], "dense": [{"id": "x", "reason": "refused", "retryable": False}]}


async def test_a_batch_that_no_service_took_is_a_problem(stack: Stack) -> None:
    stack.wires["lexical"].fault = "refused"
    stack.wires["dense"].fault = "status-500"
    answer = await stack.client.post(f"{DEMO}/documents", json={"documents": [{"id": "x", "text": ""}]})
    assert answer.status_code == 503


async def test_documents_are_read_by_id_in_the_order_asked_for(stack: Stack) -> None:
    answer = await post(stack, f"{DEMO}/documents/get", ids=["tree", "nothing", "apple"])
    assert [document["id"] for document in answer["documents"]] == ["tree", "apple"]
    assert answer["missing"] == ["nothing"]


async def test_deleted_documents_are_gone_from_every_service(stack: Stack) -> None:
    report = await post(stack, f"{DEMO}/documents/delete", ids=["tree", "nothing"])
    assert report["complete"] is True
    assert [outcome["report"]["deleted"] for outcome in report["services"]] == [1, 1]
    assert "tree" not in (await stack.search("fruit trees", "hybrid")).text


async def test_publishing_needs_every_storing_service_and_switches_nothing_without(stack: Stack) -> None:
    await stack.client.put(DEMO, json={**DECLARATION, "new_generation": True, **MINE})
    stack.wires["dense"].fault = "refused"
    assert (await stack.client.post(f"{DEMO}/publish", json=MINE)).status_code == 503
    assert (await stack.search("fruit", "bm25")).json()["collection"] == "demo@1"


async def test_publishing_says_how_many_vectors_are_indexed(stack: Stack) -> None:
    assert (await post(stack, f"{DEMO}/publish"))["vectors"] == {"dense": {"vectors": 5, "indexed": 0}}


async def test_a_service_whose_model_changed_is_a_409_that_names_both_and_the_way_out(stack: Stack) -> None:
    stack.dense.model = "2"
    answer = await stack.client.put(DEMO, json=DECLARATION)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:problem:stamp-mismatch")
    assert "made by model 1, this is 2" in answer.json()["detail"]
    assert "new_generation" in answer.json()["detail"]
    rebuilt = await stack.client.put(DEMO, json={**DECLARATION, "new_generation": True})
    assert rebuilt.json()["generation"] == "demo@2"


async def test_collections_are_listed_with_what_every_backend_says(stack: Stack) -> None:
    view = (await stack.client.get(DEMO)).json()
    assert (view["live"], view["building"]) == ("demo@1", None)
    assert {backend["backend"]: backend["generations"][0]["documents"] for backend in view["backends"]} == {
        "lexical": 5,
        "dense": 5,
    }
    assert (await stack.client.get("/v1/collections")).json()["collections"] == [view]


async def test_an_unreachable_backend_is_listed_with_the_reason_and_its_last_state(stack: Stack) -> None:
    stack.wires["dense"].fault = "refused"
    dense = (await stack.client.get(DEMO)).json()["backends"][1]
    assert dense["reachable"] is False
    assert "unreachable" in dense["reason"]
    assert dense["generations"][0]["documents"] == 5


async def test_a_deleted_collection_is_gone_from_every_service(stack: Stack) -> None:
    assert (await stack.client.delete(DEMO)).status_code == 204
    assert not stack.lexical.generations
    assert not stack.dense.generations
    assert (await stack.search("fruit")).status_code == 404
    assert (await stack.client.delete(DEMO)).status_code == 404


async def test_pipelines_are_listed_with_their_fingerprints(stack: Stack) -> None:
    pipelines = (await stack.client.get("/v1/pipelines")).json()["pipelines"]
    listed = {one["name"]: one for one in pipelines}
    assert " ".join(listed) == "bm25 bm25-rerank deepct dense doc2query hybrid hybrid-rerank hybrid-rrf"
    one = (await stack.client.get("/v1/pipelines/hybrid")).json()
    assert one == listed["hybrid"]
    assert one["fingerprint"] == (await stack.search("fruit", "hybrid")).json()["pipeline"]["fingerprint"]


async def test_a_pipeline_fetched_from_the_gateway_can_be_sent_back_inline(stack: Stack) -> None:
    pipeline = (await stack.client.get("/v1/pipelines/hybrid-rerank")).json()["pipeline"]
    pipeline["stages"][0]["inputs"][0]["preset"] = "anserini-flat"
    assert (await stack.search("fruit", pipeline)).status_code == 200
    assert stack.lexical.asked[-1].preset == "anserini-flat"


async def test_the_gateway_is_ready_while_one_retriever_is(stack: Stack) -> None:
    stack.wires["dense"].fault = "refused"
    await stack.client.get(DEMO)
    assert (await stack.client.get("/readyz")).status_code == 200
    stack.wires["lexical"].fault = "refused"
    await stack.client.get(DEMO)
    assert (await stack.client.get("/readyz")).status_code == 503


LEGS = {"kind": "fuse", "inputs": [RETRIEVE, RETRIEVE]}
Z_SCORES = {**LEGS, "method": "weighted", "normalisation": "z-score"}


def inline(*stages: object) -> dict[str, object]:
    return {"query": "a", "pipeline": {"name": "x", "stages": list(stages)}}


BAD_SEARCHES: dict[str, tuple[dict[str, object], int, str]] = {
    "a query of white space": ({"query": " "}, 422, "query"),
    "top of 0": ({"query": "a", "top": 0}, 422, "top"),
    "a lone surrogate": ({"query": "a\ud800"}, 422, "query"),
    "eleven excluded ids": ({"query": "a", "exclude_ids": list("abcdefghijk")}, 422, "exclude_ids"),
    "an unknown pipeline": ({"query": "a", "pipeline": "nope"}, 404, "bm25-rerank, deepct, dense, doc2query, hybrid"),
    "an unknown kind of stage": (inline({"kind": "boost"}), 422, "'retrieve', 'fuse', 'rerank', 'cut'"),
    "an unknown backend": (inline({"kind": "retrieve", "backend": "sparse"}), 422, "there are: dense, lexical"),
    "re-ranking by a retriever": (
        inline(RETRIEVE, {"kind": "rerank", "backend": "dense"}), 422, "there are: reranker"
    ),
    "a preset for vectors": (
        inline({"kind": "retrieve", "backend": "dense", "preset": "beir"}), 422, "presets are lexical"
    ),
    "exact text search": (inline({**RETRIEVE, "exact": True}), 422, "exact is for vectors"),
    "a weight too few": (inline({**LEGS, "weights": [1.0]}), 422, "weights: 1 given for 2 inputs"),
    "a weight too large to be added": (inline({**LEGS, "weights": [1e308, 1e308]}), 422, "weights may be at most"),
    "theoretical-min over z-scores": (
        inline(
            {"kind": "fuse", "method": "weighted", "normalisation": "theoretical-min", "inputs": [RETRIEVE, Z_SCORES]}
        ),
        422,
        "least score",
    ),
    "a preset that was not declared": (
        inline({**RETRIEVE, "preset": "anserini-multifield"}), 422, "declared are: beir, anserini-flat"
    ),
    "a filter on an undeclared field, in a pipeline that skips failures": (
        {"query": "a", "pipeline": "hybrid", "filter": {"all": [{"field": "year", "op": "gte", "value": 2019}]}},
        422,
        "field year is not declared",
    ),
    "more retrieves than anybody needs": (
        inline({"kind": "fuse", "inputs": [{"kind": "fuse", "inputs": [RETRIEVE] * 8}] * 8}), 422, "64 retrieve stages"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_SEARCHES)
async def test_a_bad_search_gets_a_clear_4xx(stack: Stack, name: str) -> None:
    body, status, said = BAD_SEARCHES[name]
    # Escaped by json.dumps: lone surrogates can be written in JSON though not in UTF-8.
    headers = {"content-type": "application/json"}
    answer = await stack.client.post(f"{DEMO}/search", content=json.dumps(body).encode(), headers=headers)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]


async def test_too_deeply_nested_fuses_are_refused(stack: Stack) -> None:
    for depth in (5, 60, 240, 400):
        stage: Mapping[str, object] = RETRIEVE
        for _ in range(depth):
            stage = {"kind": "fuse", "inputs": [stage, RETRIEVE]}
        answer = await stack.search("fruit", {"name": "x", "stages": [stage]})
        assert answer.status_code in (400, 422), (depth, answer.text)


UNKNOWN = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("POST", "/publish", {}),
    ("POST", "/search", {"query": "a"}),
    ("POST", "/documents", {"documents": [{"id": "a", "text": ""}]}),
    ("POST", "/documents/get", {"ids": ["a"]}),
    ("POST", "/documents/delete", {"ids": ["a"]}),
]


@pytest.mark.parametrize(("method", "path", "body"), UNKNOWN)
async def test_an_unknown_collection_is_a_404_that_names_no_other(
    stack: Stack, method: str, path: str, body: object
) -> None:
    answer = await stack.client.request(method, f"/v1/collections/other{path}", json=body)
    assert answer.status_code == 404
    assert answer.json()["type"] == "urn:problem:unknown-collection"
    assert "GET /v1/collections lists all" in answer.json()["detail"]
    assert "demo" not in answer.text


@pytest.mark.parametrize("name", ["Demo", "demo@1", "%00", "%ff", "a" * 65, "-"])
async def test_a_name_that_no_collection_can_have_is_a_4xx(stack: Stack, name: str) -> None:
    answer = await stack.client.post(f"/v1/collections/{name}/search", json={"query": "a"})
    assert answer.status_code in (404, 422)


async def test_inline_pipelines_can_be_switched_off() -> None:
    async with opened_stack(inline_pipelines=False) as stack:
        answer = await stack.search("fruit", {"name": "x", "stages": [RETRIEVE]})
        assert answer.status_code == 422
        assert "GATEWAY_INLINE_PIPELINES" in answer.json()["detail"]
        assert (await stack.search("fruit", "bm25")).status_code == 200


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nstages: [{kind: boost}]", "'retrieve', 'fuse', 'rerank', 'cut'"),
        ("name: x\nstages: [{kind: retrieve, backend: lexical, boost: 2}]", "boost"),
        ("name: x\nstages: []", "stages"),
        ("name: x\nstages: [{kind: cut, top: 3}]", "the first must be"),
        ("- 1", "kinds of stages: retrieve, fuse, rerank, cut"),
        ("name: [", "not valid YAML"),
    ],
)
def test_a_bad_pipeline_file_names_the_place_and_the_legal_kinds(text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        parse_pipeline(text)
