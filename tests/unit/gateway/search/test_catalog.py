"""The pipelines that ship keep their fingerprints and the bytes in which they are served."""

import hashlib

import pytest

from gateway.search.catalog import Catalog
from gateway.settings import DEFAULT_BACKENDS, GatewaySettings

# By name: the fingerprint, and the first digits of the SHA-256 of the answer of GET /v1/pipelines/{name}.
SERVED = {
    "bm25": ("55f45fcff6d0", "d9f807f753e059db"),
    "bm25-rerank": ("00221ef26682", "96ff242809d1cb7a"),
    "dense": ("f4bc3ca1a369", "397c3ef34770a63f"),
    "hybrid": ("533b654d5d28", "cbb287be781ded95"),
    "hybrid-rerank": ("60e1b967b241", "054a2515d2d4a4cb"),
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
