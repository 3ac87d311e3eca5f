"""Two walks of one request, at the same time over the same backends, as interleaving and shadowing need them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import fields, is_dataclass

import pytest

from gateway.backends.budget import Budget
from gateway.backends.wire import Backends, open_backends
from gateway.collections.generations import Generations
from gateway.search.admission import Admission
from gateway.search.plan import WalkPlan, plan_pipeline
from gateway.search.walk import include, walk
from gateway.search.walked import WalkContext, Walked
from gateway.settings import DEFAULT_BACKENDS, BackendAddress
from services.chassis.background_tasks import Supervisor
from services.chassis.deadlines import Deadline
from services.chassis.instruments import Instruments
from services.contracts.pipelines import Pipeline
from services.contracts.query import SearchRequest
from tests.support.backends import Stack
from tests.support.wires import FixedEndpoints

REQUEST = SearchRequest(query="fruit trees", top=5, include=("title", "text"))
HYBRID = {
    "name": "hybrid",
    "stages": [
        {
            "kind": "fuse",
            "id": "fuse",
            "inputs": [
                {"kind": "retrieve", "id": "bm25", "backend": "lexical", "on_failure": "skip"},
                {"kind": "retrieve", "id": "vectors", "backend": "dense", "on_failure": "skip"},
            ],
        },
        {"kind": "rerank", "id": "rerank", "top": 3, "weight": 1.0, "on_failure": "skip"},
    ],
}
CUT = {
    "name": "cut",
    "stages": [{"kind": "retrieve", "id": "vectors", "backend": "dense"}, {"kind": "cut", "id": "cut", "top": 2}],
}


@pytest.fixture
async def backends(stack: Stack) -> AsyncIterator[Backends]:
    def endpoints_for(name: str, _: BackendAddress) -> FixedEndpoints:
        return FixedEndpoints(stack.wires[name])

    async with (
        Supervisor(Instruments()) as supervisor,
        open_backends(DEFAULT_BACKENDS, endpoints_for, 0.5, supervisor, Instruments()) as backends,
    ):
        yield backends


def planned(pipeline: Mapping[str, object]) -> WalkPlan:
    return plan_pipeline(Pipeline.model_validate(pipeline), DEFAULT_BACKENDS)


def context(backends: Backends) -> WalkContext:
    budget = Budget.within(Deadline.after_ms(10_000))
    admission = Admission(32, 128, Instruments())
    return WalkContext(backends, Generations(backends), admission, "", REQUEST, "demo@1", budget, False)


async def walked(shared: WalkContext, pipeline: Mapping[str, object]) -> Walked:
    plan = planned(pipeline)
    return await include(shared, plan, await walk(shared, plan))


def known(one: Walked) -> object:
    """All of a walk but how long it took."""
    titles = {identity: document.title for identity, document in one.documents.items()}
    return one.ranking, one.outputs, one.degraded, one.models, titles, one.timings_ms.keys()


async def test_two_walks_at_once_give_each_what_it_gives_alone(stack: Stack, backends: Backends) -> None:
    shared = context(backends)
    alone = [known(await walked(shared, pipeline)) for pipeline in (HYBRID, CUT)]
    for wire in stack.wires.values():
        wire.delay_s = 0.05
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(walked(shared, pipeline)) for pipeline in (HYBRID, CUT, HYBRID, CUT)]
    assert [known(task.result()) for task in tasks] == alone * 2
    one, other = tasks[0].result(), tasks[1].result()
    assert one.outputs.keys() == {"bm25", "vectors", "fuse", "rerank"}
    assert (other.outputs.keys(), len(other.ranking), other.models) == ({"vectors", "cut"}, 2, {})


async def test_the_failures_of_one_walk_are_not_those_of_another(stack: Stack, backends: Backends) -> None:
    stack.wires["reranker"].fault = "refused"
    shared = context(backends)
    degraded, whole = await asyncio.gather(walked(shared, HYBRID), walked(shared, CUT))
    assert [one.degradation.stage for one in degraded.degraded] == ["rerank"]
    assert whole.degraded == ()


async def test_what_a_walk_gives_is_frozen(backends: Backends) -> None:
    shared = context(backends)
    first = await walk(shared, planned(HYBRID))
    before = known(first)
    after = await include(shared, planned(HYBRID), first)
    assert (known(first), first.documents) == (before, {})
    assert len(after.documents) == 5
    for value in (first, first.texts, shared):
        assert is_dataclass(value)
        with pytest.raises(AttributeError):
            setattr(value, fields(value)[0].name, None)
