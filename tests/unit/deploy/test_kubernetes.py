"""k8s/ as it stands on disk; what kustomize makes of it is tests/integration/test_kustomize.py's."""

import re
from pathlib import Path

import pytest

from deploy.deployables import DEPLOYABLES, Deployable
from tests.support.images import ROOT, Yaml, container_environment, settings_of, variables, versions
from tests.support.made_secrets import copy_secrets
from tests.support.manifests import NAME, Pods, of_kind, read

K8S = ROOT / "k8s"
ALL = pytest.mark.parametrize("deployable", DEPLOYABLES.values(), ids=DEPLOYABLES)
KUSTOMIZATIONS = sorted(K8S.rglob("kustomization.yaml"))
FILES = sorted(K8S.rglob("*.yaml"))


def kustomization(folder: str) -> Yaml:
    (found,) = read(K8S / folder / "kustomization.yaml")
    return found


def config_map(folder: str, name: str) -> dict[str, str]:
    """What a ConfigMap generated in a folder holds."""
    generators = {item["name"]: item["literals"] for item in kustomization(folder).get("configMapGenerator", [])}
    return dict(literal.split("=", 1) for literal in generators.get(name, []))


def on_this_machine(told: dict[str, str], folder: Path) -> dict[str, str]:
    """An environment with files of this machine in place of those that pods mount."""
    copy_secrets(folder)
    (folder / "keys.json").write_text("{}", encoding="utf-8")
    certificates = {"tls.crt": "gateway.crt", "tls.key": "gateway.key", "ca.crt": "ca.crt"}
    mounted: dict[str, str] = {}
    for name, path in told.items():
        if path.startswith("/tls/"):
            mounted[name] = str(folder / "certificates" / certificates[Path(path).name])
        elif path.startswith("/secrets/"):
            mounted[name] = str(folder / ("keys.json" if path.endswith(".json") else "stack_token"))
    return told | mounted


def test_every_file_belongs_to_a_kustomization_or_is_an_example() -> None:
    used = set(KUSTOMIZATIONS)
    for file in KUSTOMIZATIONS:
        (found,) = read(file)
        named = [*found.get("resources", []), *found.get("components", [])]
        named += [patch["path"] for patch in found.get("patches", []) if "path" in patch]
        for name in named:
            path = (file.parent / name).resolve()
            assert path.exists(), f"{file} names {name}"
            used.add(path)
    assert [file for file in FILES if file not in used and not file.name.endswith(".example.yaml")] == []


def test_no_secret_is_in_the_tree() -> None:
    for file in FILES:
        secrets = of_kind(read(file), "Secret")
        assert not secrets or file.name.endswith(".example.yaml")
        values = {value for secret in secrets for value in secret["stringData"].values()}
        assert values <= {"REPLACE"}
        assert not re.search(r"secretGenerator|-----BEGIN", file.read_text(encoding="utf-8"))


@ALL
def test_a_deployment_listens_where_its_image_does(deployable: Deployable) -> None:
    objects = read(K8S / "base" / f"{deployable.name}.yaml")
    (deployment,), (service,) = of_kind(objects, "Deployment"), of_kind(objects, "Service")
    (container,) = Pods(deployment).containers
    assert (container["name"], container["image"]) == ("service", f"retrieval-stack/{deployable.name}")
    assert Pods(deployment).ports == {"http": deployable.port}
    assert service["spec"]["ports"] == [{"name": "http", "port": deployable.port, "targetPort": "http"}]
    assert service["spec"]["selector"] == {NAME: deployable.name} == deployment["spec"]["selector"]["matchLabels"]


@ALL
@pytest.mark.parametrize(
    "parts",
    [
        ["base", "components/embedded", "overlays/dev"],
        ["base", "components/elasticsearch", "components/qdrant", "components/tls", "overlays/prod"],
    ],
)
def test_what_a_pod_is_told_are_settings_that_it_has(deployable: Deployable, parts: list[str], tmp_path: Path) -> None:
    (hardening,) = read(K8S / "base" / "hardening.yaml")
    (container,) = hardening["spec"]["template"]["spec"]["containers"]
    told: dict[str, str] = {entry["name"]: entry["value"] for entry in container["env"]}
    for part in parts:
        told |= config_map(part, deployable.name)
    assert told.keys() - variables(deployable) == set()
    image = container_environment(deployable.name)
    settings = settings_of(deployable, image | on_this_machine(told, tmp_path))
    assert settings.drain_s + settings.grace_s < hardening["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]


@pytest.mark.parametrize("name", ["dense", "dense-bge", "dense-e5", "sparse", "late-interaction", "reranker"])
def test_a_pod_that_runs_a_model_has_whole_cores_of_its_own_and_as_many_threads(name: str) -> None:
    (deployment,) = of_kind(read(K8S / "base" / f"{name}.yaml"), "Deployment")
    (container,) = Pods(deployment).containers
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert config_map("base", name)[f"{DEPLOYABLES[name].prefix}THREADS"] == container["resources"]["limits"]["cpu"]


def test_the_stores_have_the_versions_of_versions_env() -> None:
    images = kustomization("overlays/prod")["images"]
    digests = {image["name"]: f"@{image['digest']}" for image in images if "digest" in image}
    pinned = {
        "docker.elastic.co/elasticsearch/elasticsearch": versions()["ELASTICSEARCH_IMAGE_DIGEST"],
        "qdrant/qdrant": versions()["QDRANT_IMAGE_DIGEST"],
    }
    assert digests == {name: digest for name, digest in pinned.items() if digest}
    tags = {image["name"]: image["newTag"] for image in images}
    assert tags["docker.elastic.co/elasticsearch/elasticsearch"] == versions()["ELASTICSEARCH_VERSION"]
    assert tags["qdrant/qdrant"] == f"v{versions()['QDRANT_VERSION']}-unprivileged"


def test_elasticsearch_speaks_to_nodes_on_its_own_host_alone() -> None:
    """That port asks for neither a key nor TLS, and policies count only where a plug-in enforces them."""
    (server, _) = read(K8S / "components" / "elasticsearch" / "elasticsearch.yaml")
    (container,) = server["spec"]["template"]["spec"]["containers"]
    assert {"name": "transport.host", "value": "127.0.0.1"} in container["env"]


@pytest.mark.parametrize("overlay", ["dev", "prod"])
def test_an_overlay_tags_every_image_of_ours(overlay: str) -> None:
    images = {image["name"]: image["newTag"] for image in kustomization(f"overlays/{overlay}")["images"]}
    ours = {tag for name, tag in images.items() if name.startswith("retrieval-stack/")}
    assert {f"retrieval-stack/{name}" for name in DEPLOYABLES} <= images.keys()
    assert len(ours) == 1
