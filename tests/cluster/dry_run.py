"""Lets the API server judge the manifests: every overlay and component, and two mistakes that it must refuse."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from tests.cluster.cluster import Cluster, Refused
from tests.soak.outcome import Bar
from tests.support.images import ROOT, Yaml

OVERLAYS = sorted((ROOT / "k8s" / "overlays").iterdir())
COMPONENTS = sorted((ROOT / "k8s" / "components").iterdir())
# What each mistake makes of the rendered overlay `dev`, and what the API server says of it.
MISTAKES = {
    "a port above 65535": ("containerPort: 8000", "containerPort: 80000", "must be between 1 and 65535"),
    "a misspelt field": ("revisionHistoryLimit", "revisionHistoryLimits", "unknown field"),
}
STRICTLY = ("apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "--output=name")


def composed(
    folder: Path,
    overlay: Path,
    components: Sequence[Path] = (),
    objects: Sequence[Yaml] = (),
    patches: Sequence[Mapping[str, object]] = (),
    settings: Sequence[str] = (),
) -> Path:
    """Writes a kustomization of an overlay and more, `settings` for the gateway, into a folder; returns the folder."""
    folder.mkdir(parents=True)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all(objects))
    content = {
        "namespace": f"retrieval-{overlay.name}",
        "resources": [os.path.relpath(overlay, folder.resolve()), "objects.yaml"],
        "components": [os.path.relpath(component, folder.resolve()) for component in components],
        "patches": patches,
        "configMapGenerator": [{"name": "gateway", "behavior": "merge", "literals": settings}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    return folder


def judged(cluster: Cluster, home: Path) -> tuple[list[Bar], list[tuple[str, str]]]:
    """Dry-runs everything; returns the bars, and for each overlay and component the objects that were taken."""
    for overlay in OVERLAYS:
        cluster.kubectl("apply", "-f", overlay / "namespace.yaml")
    rows = list(_taken(cluster, home))
    refused = [_refused(cluster, *mistake) for mistake in MISTAKES.values()]
    bars = [
        Bar("a strict server-side dry run takes every overlay and component", f"{len(rows)} of {len(rows)}", True),
        Bar(f"{' and '.join(MISTAKES)} are refused", f"{sum(refused)} of {len(refused)}", all(refused)),
    ]
    return bars, rows


def _taken(cluster: Cluster, home: Path) -> Iterator[tuple[str, str]]:
    contained = {
        overlay: yaml.safe_load((overlay / "kustomization.yaml").read_text())["components"] for overlay in OVERLAYS
    }
    for overlay in OVERLAYS:
        names = ", ".join(Path(component).name for component in contained[overlay])
        yield f"overlay `{overlay.name}` (components {names})", _count(cluster, overlay)
    for component in COMPONENTS:
        if not any(f"../../components/{component.name}" in names for names in contained.values()):
            for overlay in OVERLAYS:
                made = composed(home / f"{overlay.name}-{component.name}", overlay, [component])
                yield f"component `{component.name}` over `{overlay.name}`", _count(cluster, made)


def _count(cluster: Cluster, folder: Path) -> str:
    return str(len(cluster.kubectl(*STRICTLY, "-k", folder).split()))


def _refused(cluster: Cluster, right: str, wrong: str, answer: str) -> bool:
    (dev,) = (overlay for overlay in OVERLAYS if overlay.name == "dev")
    rendered = cluster.kubectl("kustomize", dev)
    assert right in rendered, right
    try:
        cluster.kubectl(*STRICTLY, "-f", "-", given=rendered.replace(right, wrong, 1))
    except Refused as refusal:
        return answer in str(refusal)
    return False
