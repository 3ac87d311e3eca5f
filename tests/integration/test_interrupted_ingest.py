"""Loading a collection, killed midway and run again, ends like a load that nothing disturbed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from deploy.local.choices import ROOT
from evaluator.datasets.reader import read_dataset
from services.contracts.collections import CollectionStates, CollectionView
from tests.support.clone import Clone

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
EXACT = {"name": "exact", "stages": [{"kind": "retrieve", "backend": "dense", "exact": True}]}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    if not (ROOT / ".models").is_dir():
        pytest.skip("needs the models that `make models` fetches")
    clone = Clone(tmp_path_factory.mktemp("clone"))
    up = clone.local("up")
    assert up.returncode == 0, up.stdout + up.stderr
    yield clone
    clone.local("down")


def ingest(clone: Clone, collection: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "evaluator", "ingest", "--collection", collection],
        cwd=clone.root, env={**os.environ, "GATEWAY_URL": clone.gateway}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def held(clone: Clone, collection: str) -> dict[str, int]:
    """Documents of the collection's only generation, by backend."""
    view = CollectionView.model_validate(clone.get(f"/v1/collections/{collection}"))
    return {backend.backend: state.documents for backend in view.backends for state in backend.generations}


def encoded(clone: Clone, collection: str) -> int:
    """Documents that the dense service holds; 0 before there is such a collection."""
    states = CollectionStates.model_validate(clone.get("/v1/collections", "dense")).collections
    return sum(state.documents for state in states if state.generation == f"{collection}@1")


def test_a_load_killed_midway_with_its_services_ends_like_a_clean_one(clone: Clone) -> None:
    killed = ingest(clone, "killed")
    last = time.monotonic() + 60
    while not 0 < encoded(clone, "killed") < 301:
        assert time.monotonic() < last
        time.sleep(0.05)
    killed.kill()
    for module in ("services.dense", "services.lexical"):
        os.kill(clone.pid(module), signal.SIGKILL)
    killed.wait()

    for collection in ("killed", "clean"):
        load = ingest(clone, collection)
        said, _ = load.communicate(timeout=200)
        assert load.returncode == 0, said
    assert held(clone, "killed") == held(clone, "clean") == {"lexical": 301, "dense": 301}

    queries = list(read_dataset(ROOT / "evaluator" / "collections" / "bicycle-workshop").queries.values())
    for pipeline in ("bm25", EXACT):
        for query in queries:
            assert clone.search(pipeline, query, "killed")["hits"] == clone.search(pipeline, query, "clean")["hits"]
