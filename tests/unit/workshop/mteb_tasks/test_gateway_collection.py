"""What a task of mteb is loaded into, and which error ends its evaluation. mteb itself is not needed."""

import pytest

from evaluator.errors import EvaluationError
from tests.support.gateway_stub import GatewayStub
from tests.support.processes import free_port
from tests.support.served import served
from workshop.mteb_tasks.gateway_collection import collection_name, load_corpus, search_all


async def test_a_corpus_is_loaded_whole_and_published() -> None:
    stub = GatewayStub()
    with served(stub.app) as url:
        await load_corpus(url, "mteb-x", ({"id": number, "title": None, "text": "fruit"} for number in range(300)))
    assert (len(stub.documents), stub.live) == (300, "shop@1")


async def test_a_lost_answer_ends_the_search_with_one_error_that_names_collection_and_query() -> None:
    asked = {f"q{number}": "fruit trees" for number in range(5)}
    with pytest.raises(EvaluationError, match=r"^mteb-x, query q\d: "):
        await search_all(f"http://127.0.0.1:{free_port()}", "mteb-x", "hybrid", asked, 10)


async def test_a_query_that_the_wire_does_not_carry_is_named() -> None:
    with pytest.raises(EvaluationError, match=r"^mteb-x, query empty: "):
        await search_all(f"http://127.0.0.1:{free_port()}", "mteb-x", "hybrid", {"empty": ""}, 10)


async def test_more_hits_than_a_search_gives_are_refused_before_any_query() -> None:
    with pytest.raises(EvaluationError, match=r"^mteb-x: .*1,001.*1,000"):
        await search_all(f"http://127.0.0.1:{free_port()}", "mteb-x", "hybrid", {"q1": "fruit"}, 1001)


def test_the_name_of_a_collection_is_of_the_wire_and_differs_where_it_is_shortened() -> None:
    assert collection_name("NFCorpus", "default", "test") == "mteb-nfcorpus-default-test"
    long = [collection_name("T" * 70 + end, "default", "test") for end in "ab"]
    assert [len(one) for one in long] == [64, 64]
    assert long[0] != long[1]
