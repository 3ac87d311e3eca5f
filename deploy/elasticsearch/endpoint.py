"""How a server is reached: its URL, and with security the certificate to trust and the key to send."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.problem import SetupProblem

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server's address. `api_key` is in the encoded form that clients send."""

    url: str
    ca_file: Path | None = None
    api_key: str | None = None

    def exports(self) -> list[str]:
        """Lines for a shell, in the names that the lexical service reads."""
        lines = [f"export ELASTICSEARCH_URL={self.url}"]
        if self.api_key is not None:
            lines.append(f"export ELASTICSEARCH_API_KEY={self.api_key}")
        if self.ca_file is not None:
            lines.append(f"export ELASTICSEARCH_CA_FILE='{self.ca_file}'")
        return lines


def is_healthy(endpoint: Endpoint, password: str | None) -> bool:
    """Whether a server answers there and its cluster is green or yellow."""
    try:
        return _ask(endpoint, "/_cluster/health", password, None).get("status") in {"green", "yellow"}
    except (OSError, ValueError):  # not listening yet, not authenticating yet, not JSON
        return False


def new_api_key(endpoint: Endpoint, password: str) -> str:
    """An API key with every privilege, made by the user `elastic`, in its encoded form."""
    try:
        return str(_ask(endpoint, "/_security/api_key", password, {"name": "retrieval-stack"})["encoded"])
    except urllib.error.HTTPError as error:
        raise SetupProblem(f"Elasticsearch gave no API key: {error.read().decode(errors='replace')}") from error


def _ask(endpoint: Endpoint, path: str, password: str | None, body: dict[str, str] | None) -> dict[str, object]:
    headers = {"Content-Type": "application/json"}
    if password is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(f"elastic:{password}".encode()).decode()
    data = None if body is None else json.dumps(body).encode()
    # A local address is asked directly, whatever http_proxy says.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if endpoint.ca_file is not None:
        context = ssl.create_default_context(cafile=str(endpoint.ca_file))
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(endpoint.url + path, data=data, headers=headers)
    with urllib.request.build_opener(*handlers).open(request, timeout=_TIMEOUT_S) as answer:
        return dict(json.load(answer))
