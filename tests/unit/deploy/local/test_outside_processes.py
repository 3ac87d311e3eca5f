"""Which processes of this machine a stack uses and did not start."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.local.choices import choose
from deploy.local.outside_processes import listeners, outside_processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
ELSEWHERE = "http://198.51.100.7:9200"  # an address for documentation (RFC 5737)
SERVER = """
import socket, sys
with open("/proc/self/comm", "w") as name:
    name.write(sys.argv[1])
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@contextmanager
def listening(name: str) -> Iterator[tuple[int, str]]:
    """Yields process id and URL of a server of another process, which has this name."""
    command = [sys.executable, "-c", SERVER, name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.pid, f"http://localhost:{int(server.stdout.readline())}"
        server.kill()


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_the_process_that_listens_on_a_port_is_found(family: socket.AddressFamily, address: str) -> None:
    try:
        server = socket.socket(family)
        server.bind((address, 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with server:
        port = int(server.getsockname()[1])
        assert listeners(port) == ()  # bound, and nothing listens
        server.listen()
        assert listeners(port) == (os.getpid(),)


def test_an_engine_of_this_machine_is_a_process_of_the_stack_and_one_elsewhere_is_not() -> None:
    with listening("java") as (engine, url):
        assert outside_processes([ELSEWHERE, url]) == (engine,)
        assert outside_processes([ELSEWHERE]) == ()


def test_what_stands_behind_a_forwarded_port_or_a_silent_one_is_not_known() -> None:
    with listening("docker-proxy") as (_, url), listening("java") as (_, engine):
        assert outside_processes([engine, url]) is None
    assert outside_processes([url]) is None


def test_a_stack_uses_the_engines_and_backends_that_it_does_not_start(tmp_path: Path) -> None:
    small = "http://127.0.0.1:8013"
    named = {
        "ENGINE": "server",
        "ELASTICSEARCH_URL": "http://127.0.0.1:9200",
        "QDRANT_URL": "http://127.0.0.1:6333",
        "GATEWAY_BACKENDS": json.dumps({"small": {"family": "reranker", "url": small}}),
    }
    used = choose(named, tmp_path, own_ports=True).outside_urls(named)
    assert used == (named["ELASTICSEARCH_URL"], named["QDRANT_URL"], small)


@pytest.mark.parametrize("given", [{}, {"LEXICAL": "elasticsearch"}, {"ELASTICSEARCH_URL": "http://127.0.0.1:9200"}])
def test_an_engine_that_the_stack_starts_or_leaves_alone_is_not_outside(given: dict[str, str], tmp_path: Path) -> None:
    assert choose(given, tmp_path, own_ports=True).outside_urls(given) == ()
