"""Describes how a server is reached (URL, certificate, API key), and checks its health."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from deploy.elasticsearch.problem import SetupProblem

_TIMEOUT_S = 5.0
# The first key waits until the server has made its index of keys: on a busy machine longer than a health check may.
_FIRST_KEY_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's address. `api_key` is in the encoded form that clients send."""

    url: str
    ca_file: Path | None = None
    api_key: str | None = field(default=None, repr=False)

    def exports(self) -> list[str]:
        """Returns shell lines that export the lexical service's settings."""
        lines = [f"export ELASTICSEARCH_URL={self.url}"]
        if self.api_key is not None:
            lines.append(f"export ELASTICSEARCH_API_KEY={self.api_key}")
        if self.ca_file is not None:
            lines.append(f"export ELASTICSEARCH_CA_FILE='{self.ca_file}'")
        return lines


def is_healthy(endpoint: Endpoint, password: str | None, nodes: int = 1) -> bool:
    """Returns whether a server answers there with a green or yellow cluster of this many nodes."""
    try:
        health = _ask(endpoint, "/_cluster/health", password, None)
        return health.get("status") in {"green", "yellow"} and health.get("number_of_nodes") == nodes
    except (OSError, ValueError):  # not listening yet, not authenticating yet, not JSON
        return False


def new_api_key(endpoint: Endpoint, password: str) -> str:
    """Creates an API key with every privilege as the user `elastic`; returns its encoded form."""
    try:
        answer = _ask(endpoint, "/_security/api_key", password, {"name": "retrieval-stack"}, _FIRST_KEY_TIMEOUT_S)
        return str(answer["encoded"])
    except urllib.error.HTTPError as error:
        raise SetupProblem(f"Elasticsearch gave no API key: {error.read().decode(errors='replace')}") from error


def _ask(
    endpoint: Endpoint, path: str, password: str | None, body: dict[str, str] | None, timeout_s: float = _TIMEOUT_S
) -> dict[str, object]:
    headers = {"Content-Type": "application/json"}
    if password is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"elastic:{password}".encode()).decode()
    data = None if body is None else json.dumps(body).encode()
    # Ignores http_proxy: the address is local.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if endpoint.ca_file is not None:
        context = ssl.create_default_context(cafile=str(endpoint.ca_file))
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(endpoint.url + path, data=data, headers=headers)
    with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
        return dict(json.load(answer))
