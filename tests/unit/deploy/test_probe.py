"""The health check of a container asks the service's own listener, over TLS where that has a certificate."""

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.support.images import ROOT
from tests.support.made_secrets import copy_secrets


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/livez" else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def listener(context: ssl.SSLContext | None) -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield server.server_port
        server.shutdown()
        serving.join()


def probe(path: str, port: int, **told: str) -> int:
    environment = {**os.environ, "PROBE_PORT": str(port), **told}
    command = [sys.executable, str(ROOT / "deploy" / "probe.py"), path]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


@pytest.mark.parametrize("secured", [False, True])
def test_it_succeeds_only_when_the_service_answers_200(tmp_path: Path, secured: bool) -> None:
    context, told = None, {}
    if secured:
        copy_secrets(tmp_path)
        certificate, key = (tmp_path / "certificates" / f"lexical.{kind}" for kind in ("crt", "key"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        told = {"LEXICAL_TLS_CERT_FILE": str(certificate)}
    with listener(context) as port:
        assert probe("/livez", port, **told) == 0
        assert probe("/readyz", port, **told) == 1
    assert probe("/livez", port, **told) == 1


def test_a_listener_without_tls_fails_a_probe_that_expects_it() -> None:
    with listener(None) as port:
        assert probe("/livez", port, LEXICAL_TLS_CERT_FILE="/there") == 1
