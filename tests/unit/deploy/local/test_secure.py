"""What `make up SECURE=1` makes and decides, and how a stack with certificates of its own is asked."""

import asyncio
import json
import os
import re
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.elasticsearch.data_lock import ServerRecord, lock_data_directory, write_record
from deploy.elasticsearch.endpoint import Endpoint
from deploy.local.__main__ import addresses
from deploy.local.checks import expect_startable
from deploy.local.choices import ROOT, choose
from deploy.local.problem import StackProblem
from deploy.local.running_stack import not_ready
from deploy.local.secure import SecureFiles
from deploy.local.supervision import configuration, processes
from tests.support.certificates import Certificates
from tests.support.recorded_requests import recording

SECURE = {"SECURE": "1"}


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def shown(files: SecureFiles, server_name: str) -> None:
    """Shakes hands in memory with a server that has these files. Raises ssl.SSLError."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.variables["GATEWAY_TLS_CERT_FILE"], files.variables["GATEWAY_TLS_KEY_FILE"])
    client = ssl.create_default_context(cafile=files.ca_file)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(down, up, server_hostname=server_name), server.wrap_bio(up, down, server_side=True)]
    for side in sides * 3:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def test_authority_and_token_are_made_once_and_the_certificate_at_each_start(tmp_path: Path) -> None:
    files = SecureFiles(tmp_path / "secure")
    files.make()
    before = {file.name: file.read_bytes() for file in files.directory.iterdir()}
    assert mode(files.directory) == 0o700
    assert {file.name for file in files.directory.iterdir()} == {
        "ca.pem", "ca.key", "stack.pem", "stack.key", "token",
    }  # fmt: skip
    assert {mode(file) for file in files.directory.iterdir()} == {0o600}
    shown(files, "localhost")
    shown(files, "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shown(files, "127.0.0.2")
    files.make()
    after = {file.name: file.read_bytes() for file in files.directory.iterdir()}
    assert {name for name in before if before[name] == after[name]} == {"ca.pem", "ca.key", "token"}


def test_every_process_of_a_secure_stack_speaks_tls_and_knows_the_others_by_https(tmp_path: Path) -> None:
    choices = choose(SECURE, tmp_path, own_ports=False)
    assert choices.secure is not None
    choices.secure.make()
    environment = choices.environment()
    assert {choices.url(process).partition(":")[0] for process in choices.ports} == {"https"}
    backends = json.loads(environment["GATEWAY_BACKENDS"])
    assert [backend["url"] for backend in backends.values()] == [
        "https://127.0.0.1:8001", "https://127.0.0.1:8002", "https://127.0.0.1:8005", "https://127.0.0.1:8003",
    ]  # fmt: skip
    assert environment["GATEWAY_URL"] == "https://127.0.0.1:8000"
    hashing = {"DENSE_ENCODER": "hashing", "LATE_INTERACTION_ENCODER": "hashing"}
    expect_startable({**environment, "RERANKER_SCORER": "overlap", **hashing}, choices.ports)
    token = choices.secure.token_file.read_text().strip()
    assert token not in json.dumps(environment) + configuration(choices)


def test_a_secure_stack_prints_how_it_is_called_and_no_secret(tmp_path: Path) -> None:
    choices = choose(SECURE, tmp_path, own_ports=False)
    assert choices.secure is not None
    choices.secure.make()
    *_, call, variables = addresses(choices, {})
    secure = tmp_path / "secure"
    # The token goes to curl by a pipe: others can read a command line.
    assert call == (
        f"To call it: sed 's/^/Authorization: Bearer /' {secure}/token | curl --cacert {secure}/ca.pem -H @- "
        "https://127.0.0.1:8000/v1/pipelines"
    )
    assert variables == (
        f"For the evaluator: export STACK_CA_FILE={secure}/ca.pem STACK_TOKEN_FILE={secure}/token "
        "GATEWAY_URL=https://127.0.0.1:8000"
    )


@pytest.mark.parametrize("name", ["STACK_TOKEN", "STACK_TOKEN_FILE", "STACK_CA_FILE", "DENSE_TLS_KEY_FILE"])
def test_what_a_secure_stack_makes_itself_is_refused_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(StackProblem, match=f"^SECURE=1 .*{name}"):
        choose(SECURE | {name: "hunter2"}, tmp_path, own_ports=False)
    with pytest.raises(StackProblem, match=r"^SECURE=yes"):
        choose({"SECURE": "yes"}, tmp_path, own_ports=False)


def test_a_process_with_a_certificate_of_the_environment_is_called_by_https_alone(tmp_path: Path) -> None:
    given = {"LEXICAL_TLS_CERT_FILE": "a.pem", "LEXICAL_TLS_KEY_FILE": "a.key"}
    choices = choose(given, tmp_path, own_ports=False)
    urls = {process: choices.url(process) for process in ("lexical", "dense", "gateway")}
    assert urls == {
        "lexical": "https://127.0.0.1:8001", "dense": "http://127.0.0.1:8002", "gateway": "http://127.0.0.1:8000",
    }  # fmt: skip
    listed = {"lexical": {"family": "lexical", "url": "http://127.0.0.1:8001"}}  # as .env.example has it
    assert not choose(given | {"GATEWAY_BACKENDS": json.dumps(listed)}, tmp_path, own_ports=False).backends


def test_a_certificate_that_cannot_be_used_is_told_before_anything_starts(tmp_path: Path) -> None:
    given = {"GATEWAY_TLS_CERT_FILE": "/none.pem", "GATEWAY_TLS_KEY_FILE": "/none.key", "STACK_CA_FILE": "/none.ca"}
    with pytest.raises(StackProblem) as told:
        expect_startable(given, ["gateway", "evaluator"])
    assert str(told.value).splitlines()[1:] == [
        "  GATEWAY_TLS_CERT_FILE: /none.pem: No such file or directory.",
        "  STACK_CA_FILE: /none.ca: No such file or directory.",
    ]


@pytest.mark.parametrize("service", ["lexical", "dense"])
def test_the_elasticsearch_of_a_secure_stack_is_secured_and_its_service_waits_for_its_key(
    service: str, tmp_path: Path
) -> None:
    choices = choose(SECURE | {service.upper(): "elasticsearch"}, tmp_path, own_ports=True)
    assert dict(processes(choices))["elasticsearch"][-1] == "--secure"
    assert choices.environment()["ELASTICSEARCH_URL"].startswith("https://127.0.0.1:")
    waiting = rf"-m deploy\.local\.with_elasticsearch {tmp_path}/elasticsearch \S+ -m services\.{service}\n"
    assert len(re.findall(waiting, configuration(choices))) == configuration(choices).count("with_elasticsearch") == 1
    plain = choose({service.upper(): "elasticsearch"}, tmp_path, own_ports=True)
    assert "--secure" not in configuration(plain)
    assert "with_elasticsearch" not in configuration(plain)


def test_a_command_gets_the_key_of_an_elasticsearch_when_it_is_up(tmp_path: Path) -> None:
    lock = lock_data_directory(tmp_path, 1.0)
    show = "import os; print(*(os.environ[f'ELASTICSEARCH_{name}'] for name in ('URL', 'API_KEY', 'CA_FILE')))"
    command = [sys.executable, "-m", "deploy.local.with_elasticsearch", str(tmp_path), sys.executable, "-c", show]
    waiting = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(1.0)
        assert waiting.poll() is None
        write_record(tmp_path, ServerRecord(os.getpid(), Endpoint("https://127.0.0.1:9", tmp_path / "ca.pem", "key")))
        assert waiting.communicate(timeout=30)[0].split() == ["https://127.0.0.1:9", "key", f"{tmp_path}/ca.pem"]
    finally:
        waiting.kill()
        os.close(lock)


async def test_a_process_whose_certificate_or_scheme_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    pair, context = Certificates(tmp_path).issue(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    async with recording(context=context) as process:
        with pytest.raises(StackProblem, match=r"https://.*STACK_CA_FILE"):
            await asyncio.to_thread(not_ready, process.url, ssl.create_default_context())
        plain = process.url.replace("https://", "http://")
        with pytest.raises(StackProblem, match=f"{plain} .*https://"):
            await asyncio.to_thread(not_ready, plain, ssl.create_default_context())
