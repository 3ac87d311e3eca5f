"""What the client package says of requests that cannot be sent, or that the gateway refuses."""

from pathlib import Path

import pytest

from retrieval_client import RetrievalError
from tests.support.client_subjects import ClientKind, subject
from tests.support.real_stack import real_stack

KINDS: tuple[ClientKind, ...] = ("blocking", "awaiting")


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800", object()], ids=["NaN", "inf", "half", "object"]
)
async def test_what_json_cannot_hold_is_refused_by_the_id_of_its_document(tmp_path: Path, value: object) -> None:
    documents = [{"id": "Infinity", "text": "NaN"}, {"id": "odd", "text": "word", "metadata": {"price": value}}]
    async with real_stack(tmp_path) as stack, subject("awaiting", stack.into_gateway) as client:
        await client.call("begin", "shop", build="b")
        with pytest.raises(RetrievalError, match="'odd'") as refused:
            await client.call("load", "shop", documents, build="b")
        with pytest.raises(RetrievalError) as asked:
            await client.call(
                "search", "shop", "word", filter={"all": [{"field": "price", "op": "eq", "value": value}]}
            )
    assert (refused.value.kind, asked.value.kind) == ("not-json", "not-json")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_names_each_fault_once(tmp_path: Path, kind: ClientKind) -> None:
    async with real_stack(tmp_path) as stack, subject(kind, stack.into_gateway) as client:
        with pytest.raises(RetrievalError) as refused:
            await client.call("search", "shop", "water", top=5_000, offset=-1)
    assert [str(refused.value).count(field) for field in ("top:", "offset:")] == [1, 1]
