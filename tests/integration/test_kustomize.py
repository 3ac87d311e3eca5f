"""What kustomize makes of k8s/: every object is valid, hardened, and finds what it refers to."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml

from deploy.deployables import DEPLOYABLES
from tests.support.go_programs import ProgramMissingError, go_program
from tests.support.images import ROOT, Yaml
from tests.support.manifests import (
    NAME,
    POLICY_NAMESPACE,
    RELEASES,
    Peer,
    Pods,
    documents,
    may_connect,
    name_of,
    of_kind,
    pods_of,
    read,
    schema_problem,
    selects,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5@v5.7.1"
OVERLAYS = {folder.name: folder for folder in sorted((ROOT / "k8s" / "overlays").iterdir())}
# The base has no namespace and no stores; it must be whole all the same.
FOLDERS = {"base": ROOT / "k8s" / "base", **OVERLAYS}
VECTORS = ("DENSE", "DENSE_BGE", "DENSE_E5", "SPARSE", "LATE_INTERACTION")
EMBEDDED = ("LEXICAL_ENGINE", *(f"{prefix}_STORE" for prefix in VECTORS))
# Those of which there are no pods without their components.
SYSTEMS = ("sparse", "late-interaction", "dense-bge", "dense-e5")
STORE_PORTS = {"elasticsearch": 9200, "qdrant": 6333}
METRICS_PORT = 9090


@cache
def kustomize() -> Path:
    """The program, built once; skips where there is no Go or no network to build it with."""
    try:
        return go_program("kustomize", KUSTOMIZE)
    except ProgramMissingError as missing:
        pytest.skip(str(missing))


def built(folder: Path) -> list[Yaml]:
    done = subprocess.run([kustomize(), "build", folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")  # it warns of deprecated fields there
    return documents(done.stdout)


@cache
def rendered(name: str) -> list[Yaml]:
    return built(FOLDERS[name])


@pytest.fixture(params=FOLDERS)
def objects(request: pytest.FixtureRequest) -> list[Yaml]:
    return rendered(request.param)


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> list[Yaml]:
    return rendered(request.param)


def config(objects: list[Yaml], pods: Pods) -> Mapping[str, str]:
    """The variables that the pods take from ConfigMaps."""
    maps = {item["metadata"]["name"]: item["data"] for item in of_kind(objects, "ConfigMap")}
    return {key: value for name, _ in pods.references("configMap") for key, value in maps[name].items()}


def example_secrets(overlay: str) -> Mapping[str, Mapping[str, str]]:
    """The secrets of an overlay's example: what each holds, by its name."""
    file = OVERLAYS[overlay] / "secrets.example.yaml"
    return {item["metadata"]["name"]: item["stringData"] for item in read(file)}


@pytest.mark.parametrize("release", RELEASES)
def test_every_object_is_what_the_api_server_takes(objects: list[Yaml], release: str) -> None:
    assert [problem for item in objects if (problem := schema_problem(item, release)) is not None] == []


def test_an_overlay_keeps_to_one_namespace_of_its_own(overlay: list[Yaml]) -> None:
    (namespace,) = of_kind(overlay, "Namespace")
    assert {item["metadata"].get("namespace") for item in overlay if item is not namespace} == {
        namespace["metadata"]["name"]
    }
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_every_container_meets_the_restricted_standard_with_a_read_only_root(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        assert pods.spec["automountServiceAccountToken"] is False
        assert pods.spec["securityContext"]["runAsNonRoot"] is True
        assert pods.spec["securityContext"]["runAsUser"] > 0
        assert pods.spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pods.all_containers:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, f"{pods.name}/{container['name']}"


def test_every_container_asks_for_cpu_and_memory_and_is_limited_in_memory(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        for container in pods.all_containers:
            resources = container["resources"]
            assert resources["requests"].keys() == {"cpu", "memory"}, f"{pods.name}/{container['name']}"
            assert "memory" in resources["limits"]


def test_every_container_is_probed_on_a_port_that_it_has(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        for container in pods.containers:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                check = container[probe].get("httpGet") or container[probe]["tcpSocket"]
                assert check["port"] in pods.ports, f"{pods.name}: {probe}"


def test_readiness_alone_depends_on_anything_but_the_process_itself(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        if pods.name in DEPLOYABLES:
            (container,) = pods.containers
            paths = {
                probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")
            }
            assert paths == {"startup": "/livez", "readiness": "/readyz", "liveness": "/livez"}


def test_a_pod_drains_and_ends_its_requests_before_it_is_killed(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        if pods.name in DEPLOYABLES:
            variables = config(objects, pods)
            prefix = DEPLOYABLES[pods.name].prefix
            drain, grace = float(variables[f"{prefix}DRAIN_S"]), float(variables[f"{prefix}GRACE_S"])
            assert drain + grace < pods.spec["terminationGracePeriodSeconds"]
            # The evaluator is called by people, not through a balancer that has to learn of its end.
            assert drain >= 5 or pods.name == "evaluator"


def test_every_selector_chooses_the_pods_of_its_own_name(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        assert selects(pods.owner["spec"]["selector"], pods.labels)
        assert pods.labels[NAME] == pods.name
    for item in of_kind(objects, "Service", "PodDisruptionBudget"):
        selector = item["spec"]["selector"]
        chosen = [
            pods.name
            for pods in pods_of(objects)
            if selects(selector if "matchLabels" in selector else {"matchLabels": selector}, pods.labels)
        ]
        assert chosen == [item["metadata"]["name"]], name_of(item)
    for item in of_kind(objects, "HorizontalPodAutoscaler"):
        target = item["spec"]["scaleTargetRef"]
        assert f"{target['kind']}/{target['name']}" in {name_of(pods.owner) for pods in pods_of(objects)}


def test_every_port_of_a_service_is_one_of_its_pods(objects: list[Yaml]) -> None:
    by_name = {pods.name: pods for pods in pods_of(objects)}
    for service in of_kind(objects, "Service"):
        for port in service["spec"]["ports"]:
            assert by_name[service["metadata"]["name"]].ports[port["targetPort"]] == port["port"]


def test_every_volume_that_is_mounted_is_there_and_claimed(objects: list[Yaml]) -> None:
    claims = {item["metadata"]["name"] for item in of_kind(objects, "PersistentVolumeClaim")}
    for pods in pods_of(objects):
        templates = {item["metadata"]["name"] for item in pods.owner["spec"].get("volumeClaimTemplates", [])}
        volumes = {volume["name"] for volume in pods.spec.get("volumes", [])} | templates
        mounted = {mount["name"] for container in pods.all_containers for mount in container.get("volumeMounts", [])}
        assert mounted == volumes, pods.name
        assert pods.claims <= claims


def test_every_config_map_and_every_secret_that_a_pod_needs_is_there_or_documented(objects: list[Yaml]) -> None:
    maps = {item["metadata"]["name"]: item["data"] for item in of_kind(objects, "ConfigMap")}
    secrets = example_secrets("prod")
    assert of_kind(objects, "Secret") == []
    for pods in pods_of(objects):
        for name, key in pods.references("configMap"):
            assert name in maps
            assert key is None or key in maps[name]
        for name, key in pods.references("secret"):
            assert name in secrets, f"{pods.name} needs the secret {name}: add it to secrets.example.yaml"
            assert key is None or key in secrets[name]


def test_an_embedded_engine_is_one_replica_that_ends_before_the_next_one_starts(overlay: list[Yaml]) -> None:
    for pods in pods_of(overlay):
        variables = config(overlay, pods)
        scaled = [h for h in of_kind(overlay, "HorizontalPodAutoscaler") if h["metadata"]["name"] == pods.name]
        if "edge" in {variables.get(name) for name in EMBEDDED}:
            replicas = 0 if pods.name in SYSTEMS else 1
            assert (pods.owner["spec"]["replicas"], pods.owner["spec"]["strategy"]) == (replicas, {"type": "Recreate"})
            assert pods.claims == {f"{pods.name}-data"}
            assert scaled == []


def test_dev_runs_on_embedded_engines_and_prod_on_servers() -> None:
    def engines(name: str) -> set[str]:
        return {v for pods in pods_of(rendered(name)) for k, v in config(rendered(name), pods).items() if k in EMBEDDED}

    assert engines("dev") == {"edge"}
    assert engines("prod") == {"elasticsearch", "qdrant"}
    assert {pods.name for pods in pods_of(rendered("dev"))} == set(DEPLOYABLES)
    assert {pods.name for pods in pods_of(rendered("prod"))} == {*DEPLOYABLES, *STORE_PORTS}


def test_in_prod_whatever_answers_searches_has_two_replicas_and_is_never_all_away() -> None:
    prod = rendered("prod")
    for name in ("gateway", "lexical", "dense", *SYSTEMS, "reranker"):
        (scaler,) = [h for h in of_kind(prod, "HorizontalPodAutoscaler") if h["metadata"]["name"] == name]
        (budget,) = [b for b in of_kind(prod, "PodDisruptionBudget") if b["metadata"]["name"] == name]
        (pods,) = [p for p in pods_of(prod) if p.name == name]
        assert scaler["spec"]["minReplicas"] >= 2
        assert budget["spec"]["minAvailable"] == 1
        # An autoscaler leaves a Deployment of no replicas alone.
        assert pods.owner["spec"].get("replicas") == (0 if name in SYSTEMS else None)
        assert pods.owner["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        (spread,) = pods.spec["topologySpreadConstraints"]
        assert selects(spread["labelSelector"], pods.labels)


def test_in_prod_the_stores_are_asked_over_tls_with_a_key() -> None:
    prod = rendered("prod")
    for name, variable in ({"lexical": "ELASTICSEARCH"} | dict.fromkeys(("dense", *SYSTEMS), "QDRANT")).items():
        (pods,) = [p for p in pods_of(prod) if p.name == name]
        variables = config(prod, pods)
        assert variables[f"{variable}_URL"].startswith("https://")
        files = mounted_files(pods)
        for name in ("CA_FILE", "API_KEY_FILE", "SEARCH_API_KEY_FILE"):
            assert variables[f"{variable}_{name}"] in files
        assert variables[f"{variable}_API_KEY_FILE"] != variables[f"{variable}_SEARCH_API_KEY_FILE"]


def mounted_files(pods: Pods) -> set[str]:
    """The files that the first container of pods finds of secrets: those of the example where no keys are named."""
    files = set[str]()
    volumes = {volume["name"]: volume["secret"] for volume in pods.spec["volumes"] if "secret" in volume}
    for mount in pods.containers[0]["volumeMounts"]:
        secret = volumes.get(mount["name"])
        if secret is not None:
            keys = (
                [item["path"] for item in secret["items"]]
                if "items" in secret
                else example_secrets("prod")[secret["secretName"]]
            )
            files |= {mount["mountPath"]} if "subPath" in mount else {f"{mount['mountPath']}/{key}" for key in keys}
    return files


def told_to(objects: list[Yaml], pods: Pods) -> Mapping[str, str]:
    """All variables of pods: of ConfigMaps, and of their own."""
    own = {entry["name"]: entry["value"] for entry in pods.containers[0].get("env", []) if "value" in entry}
    return {**config(objects, pods), **own}


def test_no_secret_is_in_an_environment(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        for container in pods.all_containers:
            assert "secretKeyRef" not in str(container.get("env")), pods.name
            assert "secretRef" not in str(container.get("envFrom")), pods.name


def test_every_file_that_a_process_is_told_of_is_mounted_from_a_secret(objects: list[Yaml]) -> None:
    for pods in pods_of(objects):
        files = {
            name: value
            for name, value in told_to(objects, pods).items()
            if str(value).startswith(("/secrets/", "/tls/"))
        }
        assert set(files.values()) <= mounted_files(pods), pods.name
        if pods.name in DEPLOYABLES:
            assert files["STACK_TOKEN_FILE"]


def test_what_an_overlay_needs_of_secrets_is_in_its_own_example(overlay: list[Yaml]) -> None:
    (namespace,) = of_kind(overlay, "Namespace")
    secrets = example_secrets(namespace["metadata"]["name"].removeprefix("retrieval-"))
    assert {name for pods in pods_of(overlay) for name, _ in pods.references("secret")} == secrets.keys()


def test_the_token_travels_encrypted_in_prod_and_in_dev_only_where_it_is_said_to_be_trusted(
    overlay: list[Yaml],
) -> None:
    by_name = {pods.name: pods for pods in pods_of(overlay)}
    secured = "elasticsearch" in by_name
    for name, prefix in (("gateway", "GATEWAY"), ("evaluator", "EVALUATOR")):
        variables = told_to(overlay, by_name[name])
        urls = re.findall(
            r"(https?)://(\w+):", variables.get("GATEWAY_URL", "") + variables.get("GATEWAY_BACKENDS", "")
        )
        assert len(urls) == {"gateway": 3, "evaluator": 1}[name]
        plain = {host for scheme, host in urls if scheme == "http"}
        assert plain == set(json.loads(variables.get(f"{prefix}_TRUSTED_PLAIN", "[]"))) - set(SYSTEMS)
        assert (plain == set()) == secured
        assert ("STACK_CA_FILE" in variables) == secured


def test_a_process_with_a_certificate_is_probed_over_tls(overlay: list[Yaml]) -> None:
    for pods in pods_of(overlay):
        if pods.name in DEPLOYABLES:
            prefix = DEPLOYABLES[pods.name].prefix
            certified = f"{prefix}TLS_CERT_FILE" in told_to(overlay, pods)
            (container,) = pods.containers
            schemes = {
                container[f"{probe}Probe"]["httpGet"].get("scheme") for probe in ("startup", "readiness", "liveness")
            }
            assert schemes == {"HTTPS" if certified else None}


def test_the_gateway_answers_the_names_of_its_service(overlay: list[Yaml]) -> None:
    (namespace,) = of_kind(overlay, "Namespace")
    (gateway,) = [pods for pods in pods_of(overlay) if pods.name == "gateway"]
    own = f"gateway.{namespace['metadata']['name']}"
    assert json.loads(config(overlay, gateway)["GATEWAY_HOSTS"]) == [own, f"{own}.svc", f"{own}.svc.cluster.local"]


def test_only_the_gateway_calls_services_and_only_services_call_stores(overlay: list[Yaml]) -> None:
    policies = of_kind(overlay, "NetworkPolicy")
    by_name = {pods.name: pods for pods in pods_of(overlay)}
    ports = {name: deployable.port for name, deployable in DEPLOYABLES.items()} | STORE_PORTS
    wanted = {("gateway", name) for name in ("lexical", "dense", *SYSTEMS, "reranker")} | {("evaluator", "gateway")}
    stores = {("lexical", "elasticsearch"), *((name, "qdrant") for name in ("dense", *SYSTEMS))}
    wanted |= {pair for pair in stores if pair[1] in by_name}
    open_ways = {
        (source.name, target.name)
        for source in by_name.values()
        for target in by_name.values()
        if source is not target and may_connect(policies, Peer(source.labels), target, ports[target.name])
    }
    assert open_ways == wanted


def test_from_outside_only_the_gateway_can_be_reached_and_prometheus_reads_the_rest(overlay: list[Yaml]) -> None:
    policies = of_kind(overlay, "NetworkPolicy")
    ports = {name: deployable.port for name, deployable in DEPLOYABLES.items()} | STORE_PORTS

    def reached(namespace: str, port: int | None = None) -> set[str]:
        stranger = Peer({NAME: "stranger"}, namespace)
        return {p.name for p in pods_of(overlay) if may_connect(policies, stranger, p, port or ports[p.name])}

    assert reached("shop") == {"gateway"} == reached("monitoring")
    monitored = any("monitoring" in str(p) and POLICY_NAMESPACE in str(p) for p in policies)
    assert reached("monitoring", METRICS_PORT) == (set(DEPLOYABLES) if monitored else set())
    assert reached("shop", METRICS_PORT) == set()


def test_prod_is_monitored_on_a_port_of_its_own_that_no_pod_of_ours_reaches() -> None:
    prod = rendered("prod")
    policies = of_kind(prod, "NetworkPolicy")
    assert any("monitoring" in str(policy) for policy in policies)
    for pods in pods_of(prod):
        if pods.name in DEPLOYABLES:
            assert pods.ports == {"http": DEPLOYABLES[pods.name].port, "metrics": METRICS_PORT}
            assert config(prod, pods)[f"{DEPLOYABLES[pods.name].prefix}METRICS_PORT"] == str(METRICS_PORT)
        for other in pods_of(prod):
            assert not may_connect(policies, Peer(pods.labels), other, METRICS_PORT)


def test_names_are_resolved_by_the_cluster_and_by_its_cache_on_the_node(objects: list[Yaml]) -> None:
    (names,) = [p for p in of_kind(objects, "NetworkPolicy") if p["metadata"]["name"] == "names"]
    (rule,) = names["spec"]["egress"]
    assert names["spec"]["podSelector"] == {}
    assert {"ipBlock": {"cidr": "169.254.20.10/32"}} in rule["to"]
    assert {(port["protocol"], port["port"]) for port in rule["ports"]} == {("UDP", 53), ("TCP", 53)}
    assert len(rule["to"]) == 2


def test_every_rule_names_its_ports_and_every_way_in_but_to_the_gateway_its_caller(objects: list[Yaml]) -> None:
    for policy in of_kind(objects, "NetworkPolicy"):
        for way, peers in (("ingress", "from"), ("egress", "to")):
            for rule in policy["spec"].get(way, []):
                assert rule["ports"], name_of(policy)
                assert rule.get(peers) or (policy["metadata"]["name"], way) == ("gateway", "ingress")


def with_component(folder: Path, overlay: str, name: str) -> list[Yaml]:
    """What is rolled out of the overlay with this component."""
    folders = (OVERLAYS[overlay], ROOT / "k8s" / "components" / name)
    resource, component = (os.path.relpath(path, folder.resolve()) for path in folders)
    content = {"namespace": f"retrieval-{overlay}", "resources": [resource], "components": [component]}
    (folder / "kustomization.yaml").write_text(json.dumps(content))
    return built(folder)


@pytest.mark.parametrize("overlay", ["dev", "prod"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_component_turns_a_service_on_and_changes_nothing_else(tmp_path: Path, overlay: str, system: str) -> None:
    changed = [item for item in with_component(tmp_path, overlay, system) if item not in rendered(overlay)]
    assert [name_of(item) for item in changed] == [f"Deployment/{system}"]
    assert "replicas" not in changed[0]["spec"]


@pytest.mark.parametrize("overlay", ["dev", "prod"])
def test_the_gateway_calls_the_backends_that_the_overlay_names(tmp_path: Path, overlay: str) -> None:
    shutil.copytree(ROOT / "k8s", tmp_path / "k8s")
    file = tmp_path / "k8s" / "overlays" / overlay / "kustomization.yaml"
    content = yaml.safe_load(file.read_text())
    (gateway,) = (generator for generator in content["configMapGenerator"] if generator["name"] == "gateway")
    others = [line for line in gateway["literals"] if not line.startswith("GATEWAY_BACKENDS=")]
    gateway["literals"] = [*others, "GATEWAY_BACKENDS={}"]
    file.write_text(yaml.safe_dump(content))
    objects = built(file.parent)
    (pods,) = (pods for pods in pods_of(objects) if pods.name == "gateway")
    assert config(objects, pods)["GATEWAY_BACKENDS"] == "{}"


@pytest.mark.parametrize("overlay", ["dev", "prod"])
def test_all_gateways_keep_their_journals_in_one_folder_by_a_component(tmp_path: Path, overlay: str) -> None:
    objects = with_component(tmp_path, overlay, "journal")
    (gateway,) = (pods for pods in pods_of(objects) if pods.name == "gateway")
    assert config(objects, gateway)["GATEWAY_JOURNAL"] == "/data/journal"
    assert gateway.claims == {"journal"}
    (claim,) = (item for item in of_kind(objects, "PersistentVolumeClaim") if item["metadata"]["name"] == "journal")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


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
