"""Brings one metric from Prometheus to the custom metrics API, as prometheus-adapter does for any.

It runs in a pod, with Python's own library alone.
"""

import json
import ssl
import urllib.request
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

METRIC = "http_requests_in_flight"
API = "custom.metrics.k8s.io/v1beta2"
RESOURCE = {
    "name": f"pods/{METRIC}",
    "namespaced": True,
    "kind": "MetricValueList",
    "verbs": ["get"],
    "singularName": "",
}


class Adapter(BaseHTTPRequestHandler):
    """Answers the discovery of the API, and the metric of the pods that a selector `name=value` chooses."""

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        answer: object
        if asked.path == "/targets":
            answer = targets()
        elif METRIC not in asked.path:
            answer = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API, "resources": [RESOURCE]}
        else:
            namespace = asked.path.split("/")[5]
            name = parse_qs(asked.query)["labelSelector"][0].rpartition("=")[2]
            items = [value(namespace, pod, amount) for pod, amount in in_flight(name)]
            answer = {"kind": "MetricValueList", "apiVersion": API, "metadata": {}, "items": items}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def targets() -> list[object]:
    """Each pod of ours with a port of metrics, for Prometheus: Debian's has no discovery of pods built in."""
    account = Path("/var/run/secrets/kubernetes.io/serviceaccount")
    request = urllib.request.Request("https://kubernetes.default.svc/api/v1/namespaces/retrieval-dev/pods")
    request.add_header("authorization", f"Bearer {(account / 'token').read_text()}")
    with urllib.request.urlopen(request, context=ssl.create_default_context(cafile=account / "ca.crt")) as answer:
        pods = json.load(answer)["items"]
    return [
        {
            "targets": [f"{pod['status']['podIP']}:{port['containerPort']}"],
            "labels": {"pod": pod["metadata"]["name"], "name": pod["metadata"]["labels"]["app.kubernetes.io/name"]},
        }
        for pod in pods
        if pod["status"]["phase"] == "Running"
        for container in pod["spec"]["containers"]
        for port in container.get("ports", [])
        if port.get("name") == "metrics"
    ]


def in_flight(name: str) -> list[tuple[str, str]]:
    """Each pod of our service of this name, and its requests in flight, as Prometheus has read them."""
    query = quote(f'sum by (pod) ({METRIC}{{name="{name}"}})')
    with urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/query?query={query}", timeout=5) as answer:
        found = json.load(answer)["data"]["result"]
    return [(one["metric"]["pod"], one["value"][1]) for one in found]


def value(namespace: str, pod: str, amount: str) -> dict[str, object]:
    """One value as the API has it."""
    described = {"kind": "Pod", "namespace": namespace, "name": pod, "apiVersion": "/v1"}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"describedObject": described, "metric": {"name": METRIC}, "timestamp": now, "value": amount}


if __name__ == "__main__":
    server = ThreadingHTTPServer(("", 8443), Adapter)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/certificate/tls.crt", "/certificate/tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
