"""Reads the Kubernetes manifests for tests: objects, their pods, and the connections that NetworkPolicies allow."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import kubernetes_validate  # type: ignore[import-untyped]  # ships no types
import yaml

from services.chassis.settings.strict_yaml import StrictLoader
from tests.support.images import Yaml

# The oldest release that the manifests support, and the newest whose schemas are installed.
RELEASES = ("1.30", kubernetes_validate.latest_version())
NAME = "app.kubernetes.io/name"
POLICY_NAMESPACE = "kubernetes.io/metadata.name"


def documents(text: str) -> list[Yaml]:
    """Returns the objects of a YAML stream."""
    return [document for document in yaml.load_all(text, StrictLoader) if document is not None]


def read(file: Path) -> list[Yaml]:
    """Returns the objects of a file."""
    return documents(file.read_text(encoding="utf-8"))


def of_kind(objects: Sequence[Yaml], *kinds: str) -> list[Yaml]:
    """Returns the objects of these kinds."""
    return [item for item in objects if item["kind"] in kinds]


def name_of(item: Yaml) -> str:
    """Returns kind and name of an object, as `Deployment/lexical`."""
    return f"{item['kind']}/{item['metadata']['name']}"


def schema_problem(item: Yaml, release: str) -> str | None:
    """Returns why the API server of a release would refuse an object (also for unknown fields); None if it accepts."""
    try:
        kubernetes_validate.validate(item, release, strict=True)
    except kubernetes_validate.ValidationError as problem:
        return f"{name_of(item)}: {'.'.join(map(str, problem.path))}: {problem.message}"
    return None


@dataclass(frozen=True)
class Pods:
    """The pods of one Deployment or StatefulSet."""

    owner: Yaml

    @property
    def name(self) -> str:
        return str(self.owner["metadata"]["name"])

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self.owner["spec"]["template"]["metadata"]["labels"])

    @property
    def spec(self) -> Yaml:
        return dict(self.owner["spec"]["template"]["spec"])

    @property
    def containers(self) -> list[Yaml]:
        return list(self.spec["containers"])

    @property
    def all_containers(self) -> list[Yaml]:
        return [*self.spec.get("initContainers", []), *self.containers]

    @property
    def ports(self) -> Mapping[str, int]:
        return {port["name"]: port["containerPort"] for c in self.containers for port in c.get("ports", [])}

    @property
    def claims(self) -> set[str]:
        volumes = self.spec.get("volumes", [])
        return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}

    def references(self, kind: str) -> Iterator[tuple[str, str | None]]:
        """Yields the ConfigMaps (`configMap`) or Secrets (`secret`) of the pods: name and key, None for all keys."""
        for container in self.all_containers:
            for source in container.get("envFrom", []):
                if f"{kind}Ref" in source:
                    yield source[f"{kind}Ref"]["name"], None
            for variable in container.get("env", []):
                chosen = variable.get("valueFrom", {}).get(f"{kind}KeyRef")
                if chosen is not None:
                    yield chosen["name"], chosen["key"]
        for volume in self.spec.get("volumes", []):
            if kind in volume:
                name = volume[kind]["secretName" if kind == "secret" else "name"]
                items = volume[kind].get("items")
                yield from ((name, item["key"]) for item in items) if items else ((name, None),)


def pods_of(objects: Sequence[Yaml]) -> list[Pods]:
    """Returns the pods of all Deployments and StatefulSets."""
    return [Pods(item) for item in of_kind(objects, "Deployment", "StatefulSet")]


def selects(selector: Yaml, labels: Mapping[str, str]) -> bool:
    """Returns whether a label selector matches these labels."""
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for wish in selector.get("matchExpressions", []):
        assert wish["operator"] == "In", wish
        if labels.get(wish["key"]) not in wish["values"]:
            return False
    return True


@dataclass(frozen=True)
class Peer:
    """One end of a connection: a pod's labels, and its namespace (None: that of the manifests)."""

    labels: Mapping[str, str]
    namespace: str | None = None


def may_connect(policies: Sequence[Yaml], source: Peer, target: Pods, port: int) -> bool:
    """Returns whether the NetworkPolicies allow a TCP connection from a source to a port of a pod in our namespace."""
    egress = source.namespace is not None or _allowed(
        policies, "egress", source.labels, Peer(target.labels), port, target
    )
    return egress and _allowed(policies, "ingress", target.labels, source, port, target)


def _allowed(policies: Sequence[Yaml], way: str, own: Mapping[str, str], other: Peer, port: int, target: Pods) -> bool:
    applying = [
        policy["spec"]
        for policy in policies
        if way.capitalize() in policy["spec"]["policyTypes"] and selects(policy["spec"]["podSelector"], own)
    ]
    rules = [rule for spec in applying for rule in spec.get(way, [])]
    peers = "to" if way == "egress" else "from"
    return not applying or any(
        _port_matches(rule.get("ports"), port, target)
        and (peers not in rule or any(_peer_matches(peer, other) for peer in rule[peers]))
        for rule in rules
    )


def _port_matches(ports: Sequence[Yaml] | None, port: int, target: Pods) -> bool:
    return ports is None or any(
        entry["protocol"] == "TCP" and target.ports.get(entry["port"], entry["port"]) == port for entry in ports
    )


def _peer_matches(peer: Yaml, other: Peer) -> bool:
    if "ipBlock" in peer:  # addresses outside of the cluster's pods
        return False
    if "namespaceSelector" in peer:
        if other.namespace is None or not selects(peer["namespaceSelector"], {POLICY_NAMESPACE: other.namespace}):
            return False
    elif other.namespace is not None:
        return False
    return selects(peer.get("podSelector", {}), other.labels)
