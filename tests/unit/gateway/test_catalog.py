"""The pipelines that ship keep their fingerprints and the bytes in which they are served."""

import hashlib

import pytest

from gateway.catalog import Catalog
from gateway.settings import DEFAULT_BACKENDS, GatewaySettings

# By name: the fingerprint, and the first digits of the SHA-256 of the answer of GET /v1/pipelines/{name}.
SERVED = {
    "bm25": ("8bfb49cbcf9c", "d9b6b22f368b48f8"),
    "bm25-rerank": ("f7cbe3da86da", "1147f1e72f7ffbe6"),
    "dense": ("e9008731f8ce", "2162db593b3f124d"),
    "hybrid": ("6993a49b5b84", "a1acf2915fe81e32"),
    "hybrid-rerank": ("75530cad4b4b", "1fdf7df0c29a161a"),
}


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(GatewaySettings().pipelines, DEFAULT_BACKENDS, inline=True)


def test_every_pipeline_that_ships_is_pinned(catalog: Catalog) -> None:
    assert [one.name for one in catalog.views().pipelines] == list(SERVED)


@pytest.mark.parametrize("name", SERVED)
def test_a_pipeline_that_ships_keeps_its_fingerprint_and_its_bytes(catalog: Catalog, name: str) -> None:
    view = catalog.view(name)
    digest = hashlib.sha256(view.model_dump_json().encode()).hexdigest()[:16]
    assert (view.fingerprint, digest) == SERVED[name]
