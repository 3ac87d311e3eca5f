"""Installs the overlay `dev`, with two gateways and re-rankers as `prod` has them, and what a cluster has around it."""

import base64
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from string import Template
from textwrap import indent

from deploy.deployables import DEPLOYABLES
from tests.cluster.cluster import DNS_ADDRESS, Cluster, Refused, wait_for
from tests.cluster.dry_run import composed
from tests.support.go_programs import GO
from tests.support.images import ROOT, Yaml
from tests.support.manifests import NAME, read

NAMESPACE = "retrieval-dev"
K8S = ROOT / "k8s"
# What k8s/README.md says of a component that adds a service.
BACKENDS = {
    name.replace("-", "_"): {"family": name.replace("-", "_"), "url": f"http://{name}:{DEPLOYABLES[name].port}"}
    for name in ("lexical", "dense", "late-interaction", "reranker")
}
# Their embedded engine locks its directory for one process; these two have none.
REPLICATED = ("gateway", "reranker")
ENGINES = ("lexical", "dense")
STRANGERS = (NAMESPACE, "shop", "monitoring")
# Two cores hold every pod, and twice those that roll: what they ask for is less than what the manifests say.
SMALL = [{"op": "replace", "path": "/spec/template/spec/containers/0/resources/requests/cpu", "value": "20m"}]
CLAIMS = 7


def install(cluster: Cluster) -> str:
    """Applies everything and waits until it is ready; returns the key of an application that searches."""
    for number in range(CLAIMS):
        cluster.apply(_volume(cluster.home / "volumes" / str(number)))
    _install_around(cluster)
    cluster.kubectl("apply", "-f", K8S / "overlays" / "dev" / "namespace.yaml")
    keys = cluster.home / "keys.json"
    made = [sys.executable, "-m", "gateway", "keys", "new", "--file", keys, "--name", "shop"]
    key = subprocess.run(list(map(str, made)), cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()[-1]
    cluster.apply(
        _secret("stack-token", {"token": secrets.token_hex(32)}),
        _secret("gateway-keys", {"keys.json": keys.read_text()}),
    )
    cluster.kubectl("apply", "-k", _rehearsed(cluster.home / "rehearsed"))
    cluster.apply(*map(_stranger, STRANGERS))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/coredns", "--namespace=kube-system", "--timeout=120s")
    wait_until_available(cluster)
    return key


def wait_until_available(cluster: Cluster, within_s: float = 300) -> float:
    """Waits until every Deployment of ours has the pods that it wants, and no other; returns the seconds."""

    def available() -> bool:
        return all(
            deployment["metadata"]["generation"] == deployment["status"].get("observedGeneration")
            and deployment["spec"]["replicas"]
            == deployment["status"].get("readyReplicas", 0)
            == deployment["status"].get("updatedReplicas", 0)
            == deployment["status"].get("replicas", 0)
            for deployment in cluster.get("deployments", f"--namespace={NAMESPACE}")
        )

    try:
        return wait_for("all Deployments", available, within_s)
    except Refused as late:
        seen = cluster.kubectl("get", "pods,events", f"--namespace={NAMESPACE}")
        raise Refused(f"{late}\n{seen}") from late


def _rehearsed(folder: Path) -> Path:
    """`dev` with late interaction, what `replicated` has for pods without an engine, and the policy for metrics."""
    replicated = K8S / "components" / "replicated"
    objects = [
        item
        for file in ("autoscalers.yaml", "disruption-budgets.yaml")
        for item in read(replicated / file)
        if item["metadata"]["name"] in REPLICATED
    ]
    spread = [{"patch": (replicated / f"spread-{name}.yaml").read_text()} for name in REPLICATED]
    apart = [{"patch": json.dumps(_apart(name))} for name in ENGINES]
    small = {"target": {"kind": "Deployment"}, "patch": json.dumps(SMALL)}
    objects += read(K8S / "overlays" / "prod" / "metrics.yaml")
    added, backends = [K8S / "components" / "late-interaction"], [f"GATEWAY_BACKENDS={json.dumps(BACKENDS)}"]
    return composed(folder, K8S / "overlays" / "dev", added, objects, [*spread, *apart, small], backends)


def _apart(name: str) -> Yaml:
    """Keeps the engines on two nodes while there are two: the loss of one then leaves the other to search with."""
    engines = {"matchExpressions": [{"key": NAME, "operator": "In", "values": ENGINES}]}
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": engines}
    wished = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    pods = {"spec": {"affinity": {"podAntiAffinity": wished}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {"template": pods}}


def _volume(folder: Path) -> Yaml:
    """A volume for one of the claims, owned by the user of our pods: nothing gives a folder of the node their group."""
    folder.mkdir(parents=True)
    os.chown(folder, 10001, 10001)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{folder.name}"},
        "spec": {"capacity": {"storage": "20Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(folder)}},
    }


def _secret(name: str, content: dict[str, str]) -> Yaml:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": content,
    }


def _stranger(namespace: str) -> Yaml:
    """A pod that is none of ours, as restricted as they are."""
    idle = "import signal; signal.pause()"
    container = {
        "name": "service",
        "image": "retrieval-stack/evaluator:dev",  # it has the client that searches
        "command": ["python", "-c", idle],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    user = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": namespace, "labels": {NAME: "stranger"}},
        "spec": {"terminationGracePeriodSeconds": 0, "securityContext": user, "containers": [container]},
    }


def _install_around(cluster: Cluster) -> None:
    folder = Path(__file__).parent
    pair = cluster.certificates.issue("adapter.monitoring.svc")
    filled = Template((folder / "around.yaml").read_text()).substitute(
        programs=GO / "bin",
        dns=DNS_ADDRESS,
        adapter=indent((folder / "adapter.py").read_text(), "    "),
        certificate=indent(pair.cert.read_text(), "    "),
        key=indent(pair.key.read_text(), "    "),
        authority=base64.b64encode(cluster.certificates.ca_file.read_bytes()).decode(),
    )
    cluster.kubectl("apply", "-f", "-", given=filled)
