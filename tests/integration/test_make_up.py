"""`make up` and `make down` in a clone of this checkout: real processes, supervised, on free ports."""

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.choices import ROOT
from deploy.local.ports import DEFAULT_PORTS, free_ports
from tests.support import secured
from tests.support.clone import Clone, fetched

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    if not Path("/proc/self").exists() or not (ROOT / ".models").is_dir():
        pytest.skip("needs /proc and the models that `make models` fetches")
    clone = Clone(tmp_path_factory.mktemp("clone"))
    yield clone
    clone.local("down")
    clone.local("down", STACK="second")


def test_a_stack_comes_up_searchable_restarts_its_dead_and_keeps_what_it_serves(clone: Clone) -> None:
    up = clone.local("up")
    assert up.returncode == 0, up.stdout + up.stderr
    before = clone.search("hybrid-rerank")
    assert before["degraded"] == []

    assert clone.local("up").returncode == 0  # again changes nothing
    other = clone.local("up", LEXICAL="elasticsearch")
    assert (other.returncode, "make down" in other.stderr) == (1, True)

    old = clone.pid("gateway")
    os.kill(old, signal.SIGKILL)
    waited = clone.local("up")
    assert waited.returncode == 0, waited.stdout + waited.stderr
    assert clone.search("hybrid-rerank")["hits"] == before["hits"]
    assert clone.pid("gateway") != old

    assert clone.local("down").returncode == 0
    with pytest.raises(OSError, match="refused"):
        clone.search("bm25")
    again = clone.local("up")
    assert again.returncode == 0, again.stdout + again.stderr
    assert clone.search("hybrid-rerank")["hits"] == before["hits"]
    assert clone.local("down").returncode == 0


def test_a_port_in_use_is_named_and_nothing_is_started(clone: Clone) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = clone.local("up", LEXICAL_PORT=str(taken.getsockname()[1]))
    assert refused.returncode == 1
    assert "LEXICAL_PORT" in refused.stderr
    with pytest.raises(OSError, match="refused"):
        clone.search("bm25")


def test_a_process_that_cannot_start_is_told_of_when_it_ends_for_the_first_time(clone: Clone) -> None:
    directory = clone.root / ".data" / "up-second"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "lexical").write_text("")  # no directory
    refused = clone.local("up", STACK="second")
    (directory / "lexical").unlink()
    assert refused.returncode == 1
    assert "lexical does not start. Its log ends with:" in refused.stderr
    assert "entered FATAL state" not in (directory / "logs" / "supervisord.log").read_text()
    with pytest.raises(OSError, match="refused"):
        clone.search("bm25")


def test_up_on_a_running_stack_reads_pipelines_again_and_refuses_other_settings_by_name(clone: Clone) -> None:
    assert clone.local("up").returncode == 0
    file = clone.root / "gateway" / "pipelines" / "mine.yaml"
    file.write_text("name: mine\nstages: [{kind: retrieve, backend: lexical}]\n")
    again = clone.local("up")
    assert (again.returncode, "Pipelines read again: new mine." in again.stderr) == (0, True), again.stderr
    assert clone.search("mine")["hits"]
    file.write_text("name: mine\nstages: [{kind: retrieve, backend: lexcial}]\n")
    faulty = clone.local("up")
    assert (faulty.returncode, "mine.yaml: stage" in faulty.stderr) == (1, True), faulty.stderr
    assert clone.search("mine")["hits"]
    file.unlink()
    other = clone.local("up", GATEWAY_REFRESH_S="2")
    assert (other.returncode, "(GATEWAY_REFRESH_S): `make down` first" in other.stderr) == (1, True), other.stderr
    assert clone.local("down").returncode == 0


def test_the_cascade_of_the_rerankers_readme_works_as_it_is_written(clone: Clone) -> None:
    readme = (ROOT / "services/reranker/README.md").read_text()
    (block,) = re.findall(r"```bash\n([^`]*GATEWAY_BACKENDS=[^`]*)```", readme)
    (stages,) = re.findall(r"```yaml\n([^`]*reranker-small[^`]*)```", readme)
    (port,) = free_ports(1)
    given = re.findall(r"GATEWAY_BACKENDS='(.*?)' make up", block)
    backends = given[0].replace(":8013", f":{port}")
    file = clone.root / "gateway" / "pipelines" / "cascade.yaml"
    file.write_text(stages)
    small = subprocess.Popen(
        [sys.executable, "-m", "services.reranker"], cwd=clone.root,
        env={**os.environ, "RERANKER_PORT": str(port), "RERANKER_SCORER": "overlap"}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        up = clone.local("up", GATEWAY_BACKENDS=backends)
        assert up.returncode == 0, up.stderr
        answer = clone.search("cascade")
    finally:
        small.terminate()
        small.wait()
        file.unlink()
        clone.local("down")
    assert (answer["degraded"], set(answer["models"])) == ([], {"wide", "narrow"})


def test_the_page_of_online_experiments_leads_from_yaml_to_a_verdict(clone: Clone) -> None:
    if secured.mode() is not None:
        pytest.skip("the page's commands have no keys")
    page = (ROOT / "docs/online.md").read_text().replace("http://127.0.0.1:8000", clone.gateway)
    page = page.replace(".venv/bin/python", sys.executable)
    declare, search, simulate, report = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    started = dict(re.findall(r"([A-Z]+_[A-Z]+)=(\S+)", declare))
    (forget,) = re.findall(r"`([^`]+online forget [^`]+)`", page)
    environment = {**os.environ, "GATEWAY_URL": clone.gateway}

    def run(script: str) -> str:
        done = subprocess.run(["bash", "-ec", script], cwd=clone.root, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(declare.partition("GATEWAY_PIPELINES")[0])
    assert clone.local("up", **started).returncode == 0
    try:
        assert '"experiment":{"name":"shop"' in run(search)
        run(simulate.replace("--users 3000", "--users 800"))
        assert "hybrid-colbert is better than bm25: click@10" in run(report)
        assert "2 lines removed" in run(forget)
    finally:
        clone.local("down")


def test_a_second_stack_stands_beside_the_first_with_another_model_and_another_engine(
    clone: Clone, elasticsearch_url: str
) -> None:
    assert clone.local("up").returncode == 0
    ports = {f"{process.upper()}_PORT": "" for process in DEFAULT_PORTS}
    engine = {"LEXICAL": "elasticsearch", "ELASTICSEARCH_URL": elasticsearch_url}
    second = clone.local("up", STACK="second", DENSE_ENCODER="hashing", **engine, **ports)
    assert second.returncode == 0, second.stderr
    (gateway,) = re.findall(r"Ready: (\S+) serves", second.stderr)
    secured.protect(int(gateway.rpartition(":")[2]), "GATEWAY")
    assert "make down STACK=second" in second.stderr
    for url, model, lexical in (
        (clone.gateway, "all-MiniLM-L6-v2", "qdrant-edge"),
        (gateway, "hashing", "elasticsearch"),
    ):
        collection: Any = fetched(urllib.request.Request(f"{url}/v1/collections/demo"))
        held = {backend["backend"]: backend["generations"][0] for backend in collection["backends"]}
        assert (held["dense"]["stamp"]["model"], held["lexical"]["engine"].split()[0]) == (model, lexical)
    removal = urllib.request.Request(f"{gateway}/v1/collections/demo", method="DELETE")  # the server may be lasting
    fetched(removal, timeout_s=60)
    assert clone.local("down").returncode == 0
    assert clone.local("down", STACK="second").returncode == 0
    with pytest.raises(OSError, match="refused"):
        fetched(urllib.request.Request(f"{gateway}/livez"))


def test_services_on_request_are_added_to_a_stack_with_its_data(clone: Clone) -> None:
    assert clone.local("up", SYSTEMS="none").returncode == 0
    with pytest.raises(urllib.error.HTTPError) as absent:
        clone.search("colbert")
    assert (absent.value.code, b"make up SYSTEMS=late_interaction" in absent.value.read()) == (404, True)
    assert clone.local("down").returncode == 0
    hashing = {"SPARSE_ENCODER": "hashing", "LATE_INTERACTION_ENCODER": "hashing"}
    up = clone.local("up", SYSTEMS="sparse,late_interaction", **hashing)
    assert up.returncode == 0, up.stderr
    for pipeline in ("bm25", "splade", "colbert", "bm25-splade", "bm25-colbert", "hybrid-colbert"):
        answer = clone.search(pipeline)
        assert (bool(answer["hits"]), answer["degraded"]) == (True, []), pipeline
    without = clone.local("up", **hashing)
    assert (without.returncode, "GATEWAY_BACKENDS" in without.stderr) == (1, True), without.stderr
    assert clone.local("down").returncode == 0


def test_a_secure_stack_speaks_tls_alone_and_the_printed_calls_reach_it(clone: Clone) -> None:
    up = clone.local("up", SECURE="1")
    try:
        assert up.returncode == 0, up.stdout + up.stderr
        (call,) = re.findall(r"To call it: (.*)", up.stderr)
        called = subprocess.run(call, shell=True, cwd=clone.root, capture_output=True, text=True, check=False)
        assert '"name":"hybrid-rerank"' in called.stdout, called.stderr
        (variables,) = re.findall(r"For the evaluator: export (.*)", up.stderr)
        words = f"env {variables} {sys.executable} -m evaluator ingest demo --collection shop"
        loaded = subprocess.run(words, shell=True, cwd=clone.root, capture_output=True, text=True, check=False)
        assert loaded.returncode == 0, loaded.stderr
        with pytest.raises((http.client.RemoteDisconnected, http.client.BadStatusLine, ConnectionResetError)):
            urllib.request.urlopen(f"http://127.0.0.1:{clone.ports['gateway']}/livez", timeout=15)
        again = clone.local("up", SECURE="1")
        assert (again.returncode, "Pipelines read again" in again.stderr) == (0, True), again.stderr
        token = (clone.root / ".data/up/secure/token").read_text().strip()
        holding = [
            file
            for folder in (".data", ".runs")
            for file in (clone.root / folder).rglob("*")
            if file.is_file() and token.encode() in file.read_bytes()
        ]
        stacks = ["up"] if secured.mode() is None else ["up", "up-second"]  # the support gives both the same token
        assert sorted(holding) == [clone.root / ".data" / stack / "secure" / "token" for stack in stacks]
        assert token not in up.stderr + loaded.stderr + again.stderr
    finally:
        assert clone.local("down").returncode == 0
