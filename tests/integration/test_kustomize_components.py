"""What a component of k8s/ changes that an overlay may add."""

import json
import os
from pathlib import Path

import pytest

from tests.integration.test_kustomize import OVERLAYS, SYSTEMS, built, config, rendered
from tests.support.images import ROOT, Yaml
from tests.support.manifests import Peer, may_connect, name_of, of_kind, pods_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def with_component(folder: Path, overlay: str, name: str) -> list[Yaml]:
    """What is rolled out of the overlay with this component."""
    folders = (OVERLAYS[overlay], ROOT / "k8s" / "components" / name)
    resource, component = (os.path.relpath(one, folder.resolve()) for one in folders)
    content = {"namespace": f"retrieval-{overlay}", "resources": [resource], "components": [component]}
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    return built(folder)


@pytest.mark.parametrize("overlay", ["dev", "prod"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_component_turns_a_service_on_and_changes_nothing_else(tmp_path: Path, overlay: str, system: str) -> None:
    changed = [item for item in with_component(tmp_path, overlay, system) if item not in rendered(overlay)]
    assert [name_of(item) for item in changed] == [f"Deployment/{system}"]
    assert "replicas" not in changed[0]["spec"]


def test_dense_vectors_go_to_elasticsearch_by_a_component(tmp_path: Path) -> None:
    objects = with_component(tmp_path, "prod", "dense-elasticsearch")
    of_name = {pods.name: pods for pods in pods_of(objects)}
    dense, lexical = (config(objects, of_name[name]) for name in ("dense", "lexical"))
    assert (dense["DENSE_STORE"], dense["DENSE_PREFIX"]) == (
        "elasticsearch",
        f"{lexical['LEXICAL_INDEX_PREFIX']}dense.",
    )
    shared = {name for name in lexical if name.startswith("ELASTICSEARCH_")}
    assert {name: dense[name] for name in shared} == {name: lexical[name] for name in shared}
    secrets = {name for name, _ in of_name["dense"].references("secret")}
    assert {"elasticsearch-client", "elasticsearch-tls"} <= secrets
    policies = of_kind(objects, "NetworkPolicy")
    callers = {
        name
        for name, pods in of_name.items()
        if may_connect(policies, Peer(pods.labels), of_name["elasticsearch"], 9200)
    }
    assert callers - {"elasticsearch"} == {"dense", "lexical"}
