"""The pipelines that ship keep their fingerprints and the bytes in which they are served."""

import hashlib

import pytest

from gateway.families import FAMILIES
from gateway.search.catalog import Catalog
from gateway.settings import BackendAddress, GatewaySettings

# By name: the fingerprint, and the first digits of the SHA-256 of the answer of GET /v1/pipelines/{name}.
SERVED = {
    "bm25": ("55f45fcff6d0", "d9f807f753e059db"),
    "bm25-colbert": ("0fcba3616b30", "0e9a96dea2cbd9d1"),
    "bm25-rerank": ("00221ef26682", "96ff242809d1cb7a"),
    "bm25-splade": ("1b0631e604c5", "5dc29b279fdc8749"),
    "colbert": ("69cb52bc45ef", "ead718df18bb39af"),
    "deepct": ("a395acbe5307", "4a6d75dba14a78f0"),
    "dense": ("f4bc3ca1a369", "397c3ef34770a63f"),
    "doc2query": ("b4c36d09f3ed", "81eaebb57a6a0fbc"),
    "hybrid": ("441ae9a7eda3", "842546ba3d1fd2b0"),
    "hybrid-colbert": ("25a628c527ff", "68adb00ac8f70d3c"),
    "hybrid-rerank": ("2dd8fccfcbc3", "2dcb9f1a6448f4ac"),
    "hybrid-rrf": ("533b654d5d28", "476a558de092aa6d"),
    "splade": ("d173086164bb", "1e34f5347cdf3cc9"),
}


@pytest.fixture
def catalog() -> Catalog:
    backends = {family: BackendAddress(family=family, url="http://127.0.0.1:1") for family in FAMILIES}
    return Catalog(GatewaySettings().pipelines, backends, inline=True)


def test_every_pipeline_that_ships_is_pinned(catalog: Catalog) -> None:
    assert [one.name for one in catalog.views().pipelines] == list(SERVED)


@pytest.mark.parametrize("name", SERVED)
def test_a_pipeline_that_ships_keeps_its_fingerprint_and_its_bytes(catalog: Catalog, name: str) -> None:
    view = catalog.view(name)
    digest = hashlib.sha256(view.model_dump_json().encode()).hexdigest()[:16]
    assert (view.fingerprint, digest) == SERVED[name]
