"""How collections are made on a Qdrant server by settings, and that hits do not depend on the depth of a search."""

import httpx
import numpy as np
import pytest
from pydantic import ValidationError
from qdrant_client import AsyncQdrantClient

from services.dense.app import build_app
from services.dense.settings import DenseSettings
from services.late_interaction.settings import LateInteractionSettings
from services.sparse.settings import SparseSettings
from services.storage.point_ids import point_id
from services.storage.representation import Sparse
from services.vectorservice.settings import VectorServiceSettings
from services.vectorstore.qdrant_connection import QdrantClients
from services.vectorstore.qdrant_parameters import DEFAULT_PARAMETERS, QdrantParameters
from services.vectorstore.store import Point, VectorQuery
from services.vectorstore.store_qdrant import QdrantStore
from tests.contract.test_dense_on_qdrant import serving
from tests.support.opened_client import opened_client
from tests.support.processes import free_port
from tests.support.qdrant_double import qdrant_double
from tests.support.vectors import SAMPLES, SPEC, axis, point, sparse

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")
SERVER = {"store": "qdrant", "qdrant_url": "http://127.0.0.1:6333"}
PLAIN = {
    "hnsw_config": {"m": 16, "ef_construct": 128, "full_scan_threshold": 1_000},
    "optimizers_config": {"indexing_threshold": 1_000},
}


class Sent:
    """A store over a double of a server, and what the double was sent."""

    def __init__(self, parameters: QdrantParameters) -> None:
        self.state = (app := qdrant_double()).state
        transport = httpx.ASGITransport(app=app)
        client = AsyncQdrantClient(url="http://qdrant", transport=transport, check_compatibility=False)
        self.store = QdrantStore(QdrantClients(client, client), parameters=parameters)

    async def created(self, sample: str) -> dict[str, object]:
        await self.store.create(SAMPLES[sample].spec)
        body: dict[str, object] = self.state.created[-1]
        return _without_none(body)


def _without_none(body: object) -> dict[str, object]:
    assert isinstance(body, dict)
    kept = {key: _without_none(value) if isinstance(value, dict) else value for key, value in body.items()}
    return {key: value for key, value in kept.items() if value is not None}


async def test_without_parameters_a_collection_is_made_with_our_index_alone() -> None:
    sent = Sent(DEFAULT_PARAMETERS)
    assert await sent.created("dense") == {"vectors": {"size": 8, "distance": "Dot"}, **PLAIN}
    await sent.store.drop(SAMPLES["dense"].spec.generation)
    assert await sent.created("sparse") == {"vectors": {}, "sparse_vectors": {"sparse": {}}, **PLAIN}
    assert sent.store.stamp == {}
    await sent.store.close()


async def test_every_parameter_reaches_the_server() -> None:
    sent = Sent(QdrantParameters(3, 2, True, "int8"))
    assert await sent.created("dense") == {
        "vectors": {
            "size": 8,
            "distance": "Dot",
            "on_disk": True,
            "quantization_config": {"scalar": {"type": "int8", "always_ram": True}},
        },
        "shard_number": 3,
        "replication_factor": 2,
        **PLAIN,
    }
    await sent.store.close()


async def test_vectors_of_every_representation_go_to_the_disk() -> None:
    sent = Sent(QdrantParameters(on_disk=True))
    assert (await sent.created("sparse"))["sparse_vectors"] == {"sparse": {"index": {"on_disk": True}}}
    await sent.store.drop(SAMPLES["sparse"].spec.generation)
    vectors = (await sent.created("fp16"))["vectors"]
    assert isinstance(vectors, dict)
    assert {name: one["on_disk"] for name, one in vectors.items()} == {"tokens": True, "pooled": True}
    await sent.store.close()


def test_only_what_changes_hits_is_in_the_stamp() -> None:
    assert QdrantParameters(None, 2, True).stamp == {}
    assert QdrantParameters(4, quantisation="int8").stamp == {"index": "quantisation=int8 shards=4"}


@pytest.mark.parametrize("top", [1, 10, 112, 240])
async def test_all_candidates_of_the_codes_are_scored_again_at_every_depth(top: int) -> None:
    sent = Sent(QdrantParameters(quantisation="int8"))
    await sent.store.create(SPEC)
    await sent.store.search(SPEC.generation, VectorQuery(axis(1.0), top=top))
    (params,) = sent.state.searches
    assert params.quantization.rescore
    assert int(params.quantization.oversampling * (top + 16)) == params.hnsw_ef == 256
    await sent.store.close()


def lopsided(count: int) -> list[str]:
    """Ids of which the double keeps all in one of two shards."""
    ids = (f"d{one:05}" for one in range(10 * count))
    return [one for one in ids if point_id(one).int % 2 == 0][:count]


async def test_hits_of_several_shards_do_not_depend_on_how_many_are_asked_for() -> None:
    sent = Sent(QdrantParameters(shard_number=2))
    await sent.store.create(SPEC)
    weights = np.linspace(1.0, 0.9, 300)
    points = [point(one, axis(float(weight))) for one, weight in zip(lopsided(300), weights, strict=True)]
    others = [point(f"e{one}", axis(0.5 - one / 1_000)) for one in range(300)]
    await sent.store.upsert(SPEC.generation, points + others)
    query = VectorQuery(axis(1.0), top=240)
    deepest = await sent.store.search(SPEC.generation, query)
    for top in (5, 112, 200):
        assert await sent.store.search(SPEC.generation, VectorQuery(axis(1.0), top=top)) == deepest[:top]
    exact = await sent.store.search(SPEC.generation, VectorQuery(axis(1.0), top=240, exact=True))
    assert [hit.id for hit in exact] == [one.id for one in points[:240]]
    assert exact != deepest  # the double misses hits, or this test shows nothing
    await sent.store.close()


async def test_sparse_hits_of_several_shards_are_exact() -> None:
    sent = Sent(QdrantParameters(shard_number=2))
    spec = SAMPLES["sparse"].spec
    assert spec.representation == Sparse()
    await sent.store.create(spec)
    ids = lopsided(300)
    points = [Point(one, sparse((1, 300.0 - place)), "c", "p", {}) for place, one in enumerate(ids)]
    await sent.store.upsert(spec.generation, points)
    hits = await sent.store.search(spec.generation, VectorQuery(sparse((1, 1.0)), top=240))
    assert [hit.id for hit in hits] == ids[:240]
    await sent.store.close()


@pytest.mark.parametrize("kind", [DenseSettings, SparseSettings, LateInteractionSettings])
@pytest.mark.parametrize("name", ["shard_number", "replication_factor", "on_disk"])
def test_parameters_are_settings_of_every_vector_service(kind: type[VectorServiceSettings], name: str) -> None:
    assert getattr(kind.model_validate({**SERVER, name: 1}).qdrant_parameters, name) == 1
    with pytest.raises(ValidationError, match=f"{name.upper()}: not for .*_STORE=edge"):
        kind.model_validate({name: 1})


@pytest.mark.parametrize(
    ("store", "name", "value"), [("edge", "DENSE_QUANTISATION", "int8"), ("elasticsearch", "DENSE_ON_DISK", "false")]
)
def test_another_store_refuses_them_by_their_variable(
    store: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DENSE_STORE", store)
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match=f"{name}: not for DENSE_STORE={store}.*DENSE_STORE=qdrant"):
        DenseSettings()


async def test_a_collection_made_otherwise_is_refused_until_it_is_built_anew() -> None:
    port = free_port()

    async def ask(method: str, path: str, **settings: object) -> httpx.Response:
        server = {"store": "qdrant", "qdrant_url": f"http://127.0.0.1:{port}"}
        kept = {**server, "encoder": "hashing", "passages": "off", **settings}
        async with opened_client(build_app(DenseSettings.model_validate(kept))) as client:
            return await client.request(method, f"/v1/collections/{path}", json={} if method == "PUT" else None)

    async with serving(port):
        assert "index" not in (await ask("PUT", "notes@1")).json()["stamp"]
        assert (await ask("PUT", "notes@1", on_disk=True, replication_factor=1)).status_code == 200
        refused = await ask("PUT", "notes@1", quantisation="int8")
        assert refused.status_code == 409
        assert "index: (none), and index: quantisation=int8 is requested" in refused.json()["detail"]
        built = await ask("PUT", "notes@2", quantisation="int8")
        assert built.json()["stamp"]["index"] == "quantisation=int8"
