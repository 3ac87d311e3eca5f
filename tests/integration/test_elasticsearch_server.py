"""The real Elasticsearch of deploy/elasticsearch: what it analyses, who may stop it, what survives."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from elasticsearch import AsyncElasticsearch, AuthenticationException, Elasticsearch

from deploy.elasticsearch.account import SUBSTITUTE_ROOT, private_directory, server_account, substitute_directory
from deploy.elasticsearch.configuration import configure, make_server_directories
from deploy.elasticsearch.data_lock import ServerRecord, read_record
from deploy.elasticsearch.endpoint import Endpoint
from deploy.elasticsearch.install import install
from deploy.elasticsearch.secure import SETTINGS, make_certificate
from deploy.elasticsearch.server import say
from tests.support.elasticsearch_server import temporary_server
from tests.support.processes import free_port

# A start takes about ten seconds on a quiet machine, and ours is shared.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]
COMMAND = [sys.executable, "-m", "deploy.elasticsearch"]


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with temporary_server() as endpoint:
        yield endpoint


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data directory below one that only we can enter, as pytest makes them: the hard case for root."""
    directory = tmp_path / "data of a server"
    yield directory
    subprocess.run([*COMMAND, "stop", "--data", str(directory)], check=True)
    shutil.rmtree(substitute_directory(directory), ignore_errors=True)


def healthy(data: Path, run: subprocess.Popen[bytes]) -> ServerRecord:
    """The server of a `run`, once that has reported it healthy."""
    while run.poll() is None:
        record = read_record(data) if data.exists() else None
        if record is not None:
            return record
        time.sleep(0.2)
    raise AssertionError(f"run ended with {run.returncode}")


def family(pid: int) -> list[psutil.Process]:
    """The launcher and the server's own JVM below it."""
    launcher = psutil.Process(pid)
    return [launcher, *launcher.children(recursive=True)]


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; one that only waits for its parent to notice (a container's pid 1 is slow) does not."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


async def test_a_nearly_full_disk_does_not_block_the_server(server: Endpoint) -> None:
    async with AsyncElasticsearch(server.url) as client:
        settings = await client.cluster.get_settings(include_defaults=True, flat_settings=True)
    assert settings["defaults"]["cluster.routing.allocation.disk.threshold_enabled"] == "false"


def test_a_second_install_is_instant_and_silent(server: Endpoint) -> None:
    said: list[str] = []
    began = time.monotonic()
    install(said.append)
    assert said == []
    assert time.monotonic() - began < 5


def test_two_that_install_at_once_do_not_collide(server: Endpoint, tmp_path: Path) -> None:
    cache = tmp_path / "elasticsearch-of-a-test"
    script = (
        "import sys, pathlib, deploy.elasticsearch.install as i\n"
        "i.install(lambda text: print(text, flush=True), pathlib.Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", script, str(cache)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate()[0] for process in both]
    shutil.rmtree(SUBSTITUTE_ROOT / cache.name, ignore_errors=True)
    assert [process.returncode for process in both] == [0, 0]
    assert sum("Fetching" in output for output in outputs) == 1


def test_start_prints_what_to_export_and_what_it_holds_survives_stop(data: Path) -> None:
    port = free_port()
    background = [*COMMAND, "start", "--data", str(data), "--port", str(port)]
    first = subprocess.run(background, check=True, stdout=subprocess.PIPE, text=True)
    again = subprocess.run(background, check=True, stdout=subprocess.PIPE, text=True)
    assert first.stdout == again.stdout == f"export ELASTICSEARCH_URL=http://127.0.0.1:{port}\n"
    running = read_record(data)
    assert running is not None
    processes = family(running.pid)
    assert len(processes) == 2
    assert all(process.uids().effective != 0 for process in processes)
    with Elasticsearch(running.endpoint.url) as client:
        client.indices.create(index="kept")

    subprocess.run([*COMMAND, "stop", "--data", str(data)], check=True)
    assert not any(is_alive(process) for process in processes)

    subprocess.run(background, check=True, stdout=subprocess.DEVNULL)
    with Elasticsearch(running.endpoint.url) as client:
        assert client.indices.exists(index="kept")


def test_a_port_that_is_taken_is_named_at_once(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        answer = subprocess.run(
            [*COMMAND, "run", "--data", str(data), "--port", str(port)], check=False, stderr=subprocess.PIPE, text=True
        )
    assert answer.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_java_ends_with_a_run_that_is_ended(data: Path, how: signal.Signals) -> None:
    if how is signal.SIGKILL and sys.platform != "linux":
        pytest.skip("only Linux ends the children of a process that was killed")
    run = subprocess.Popen([*COMMAND, "run", "--data", str(data)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    processes = family(healthy(data, run).pid)
    os.kill(run.pid, how)
    assert run.wait() == (0 if how is signal.SIGTERM else -signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(is_alive(process) for process in processes):
        assert time.monotonic() < deadline
        time.sleep(0.1)


async def test_a_secured_server_wants_its_certificate_trusted_and_its_key_sent() -> None:
    with temporary_server(secured=True) as secured:
        async with AsyncElasticsearch(secured.url, ca_certs=str(secured.ca_file), api_key=secured.api_key) as client:
            health = await client.cluster.health()
        async with AsyncElasticsearch(secured.url, ca_certs=str(secured.ca_file), api_key="d3Jvbmc6a2V5") as stranger:
            with pytest.raises(AuthenticationException):
                await stranger.cluster.health()
        with pytest.raises(ssl.SSLError, match="certificate"):
            spoken_to_as_a_node(secured.url, secured.ca_file, secured.api_key)
    assert health["status"] in {"green", "yellow"}


def spoken_to_as_a_node(url: str, ca_file: Path | None, key: str | None) -> bytes:
    """Asks the port of nodes without a certificate. Raises ssl.SSLError where it wants one."""
    with Elasticsearch(url, ca_certs=str(ca_file), api_key=key) as client:
        (node,) = client.nodes.info(metric="transport")["nodes"].values()
    host, port = node["transport"]["publish_address"].rsplit(":", 1)
    trusting = ssl.create_default_context(cafile=str(ca_file))
    with (
        socket.create_connection((host, int(port)), timeout=10) as opened,
        trusting.wrap_socket(opened, server_hostname=host) as spoken,
    ):
        spoken.sendall(b"ES")
        return spoken.recv(1)  # TLS 1.3 tells here that the certificate is missing


def test_emptying_the_directory_that_was_asked_for_empties_what_stands_in_for_it(data: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root runs the server as somebody else")
    place = private_directory(data, server_account())
    assert place == substitute_directory(data)
    (place / "an-index").touch()
    assert private_directory(data, server_account()) == place
    assert (place / "an-index").exists()
    shutil.rmtree(data)
    private_directory(data, server_account())
    assert not (place / "an-index").exists()


def test_a_certificate_is_made_once_out_of_reach_of_the_server_that_gets_a_copy(tmp_path: Path) -> None:
    installation = install(say)
    places = make_server_directories(tmp_path, installation)
    kept = make_certificate(places, installation)
    certificate = (tmp_path / "ca.pem").read_bytes()
    configure(places, installation, None, SETTINGS, kept)
    assert make_certificate(places, installation) == kept
    assert (tmp_path / "ca.pem").read_bytes() == certificate
    owners = {path.stat().st_uid for path in (kept, *kept.iterdir())}
    assert owners == {os.geteuid()}
    assert kept.stat().st_mode & 0o777 == 0o700
    server = os.geteuid() if installation.account is None else installation.account.uid
    copied = places.config / "tls"
    assert {(path.name, path.stat().st_uid) for path in copied.iterdir()} == {("ca.pem", server), ("http.p12", server)}
    shutil.rmtree(substitute_directory(tmp_path), ignore_errors=True)
