"""What a component of k8s/ changes that an overlay may add."""

import json
import os
from pathlib import Path

import pytest

from tests.integration.test_kustomize import OVERLAYS, SYSTEMS, built, rendered
from tests.support.images import ROOT
from tests.support.manifests import name_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.mark.parametrize("overlay", ["dev", "prod"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_component_turns_a_service_on_and_changes_nothing_else(tmp_path: Path, overlay: str, system: str) -> None:
    folders = (OVERLAYS[overlay], ROOT / "k8s" / "components" / system)
    resource, component = (os.path.relpath(folder, tmp_path.resolve()) for folder in folders)
    content = {"namespace": f"retrieval-{overlay}", "resources": [resource], "components": [component]}
    (tmp_path / "kustomization.yaml").write_text(json.dumps(content))
    changed = [item for item in built(tmp_path) if item not in rendered(overlay)]
    assert [name_of(item) for item in changed] == [f"Deployment/{system}"]
    assert "replicas" not in changed[0]["spec"]
