"""The sparse service as clients written for Text Embeddings Inference find it, by its documented schema."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.sparse.app import build_app
from services.sparse.settings import SparseSettings
from tests.support.opened_client import opened_client
from tests.support.served import served
from tests.support.vendor_faults import not_json, overloaded, too_large, too_late

PATH = "/embed_sparse"
TEXTS = ["oil the chain", "bleed the brake", "oil oil oil"]


def settings(directory: Path, **more: Any) -> SparseSettings:
    return SparseSettings(**{"directory": directory, "encoder": "hashing", **more})


@pytest.fixture(scope="module")
def tei(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        served(build_app(settings(tmp_path_factory.mktemp("sparse")))) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
    ):
        yield client


def rows(answer: httpx.Response) -> list[dict[int, float]]:
    """The weights by index; anything but TEI's documented schema fails."""
    assert answer.status_code == 200, answer.text
    assert all(one.keys() == {"index", "value"} for row in answer.json() for one in row)
    return [{one["index"]: one["value"] for one in row} for row in answer.json()]


def test_a_client_gets_the_weights_of_each_text(tei: httpx.Client) -> None:
    answer = tei.post(PATH, json={"inputs": TEXTS, "truncate": True, "truncation_direction": "Right"})
    first, second, repeated = rows(answer)
    assert answer.headers["x-model"] == "hashing@none"
    assert (len(first), len(second)) == (3, 3)
    assert len(first.keys() & second.keys()) == 1  # "the"
    ((term, weight),) = repeated.items()
    assert weight > first[term] > 0
    assert rows(tei.post(PATH, json={"inputs": TEXTS[0]})) == [first]


def test_texts_can_be_queries(tei: httpx.Client) -> None:
    asked = rows(tei.post(PATH, json={"inputs": TEXTS, "prompt_name": "query"}))
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"inputs": [1, 2, 3]}, "send texts"),
        ({"inputs": []}, "inputs"),
        ({"inputs": ["a", ""]}, "inputs.1: an empty text"),
        ({"inputs": ["a"] * 2_049}, "2048"),
        ({"inputs": "a", "truncation_direction": "left"}, "truncation_direction"),
        ({"inputs": "a", "surprise": 1}, "surprise"),
    ],
)
def test_a_bad_request_is_a_validation_error_of_tei(tei: httpx.Client, asked: dict[str, Any], said: str) -> None:
    answer = tei.post(PATH, json=asked)
    assert answer.status_code in (400, 422)
    assert said in answer.json()["error"]
    assert answer.json()["error_type"] == "Validation"


def test_a_text_that_may_not_be_cut_is_refused_where_it_is_too_long(tei: httpx.Client) -> None:
    long = ["word", "word " * 9_000]
    answer = tei.post(PATH, json={"inputs": long, "truncate": False})
    assert (answer.status_code, answer.json()["error_type"]) == (413, "Validation")
    assert "inputs.1" in answer.json()["error"]
    assert len(rows(tei.post(PATH, json={"inputs": long}))) == 2


async def test_every_fault_is_told_in_the_vendors_own_shape(tmp_path: Path) -> None:
    app = build_app(settings(tmp_path, max_in_flight=1, max_waiting=0, max_body_bytes=1_024))
    async with opened_client(app) as client:
        answers = [await ask(client, PATH) for ask in (overloaded, too_late, too_large, not_json)]
    assert [one.status_code for one in answers] == [429, 504, 413, 400]
    kinds = [json.loads(one.content)["error_type"] for one in answers]
    assert kinds == ["Overloaded", "Backend", "Validation", "Validation"]
