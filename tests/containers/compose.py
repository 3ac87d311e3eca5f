"""`python -m tests.containers.compose`: runs deploy/compose.yaml whole, and writes docs/soak/compose.md.

Compose is built from its Go module. Beside the file stands compose.override.yaml, which says what differs here. TLS,
keys and secrets are on, as an operator has them by deploy/README.md.
"""

import contextlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from deploy.compose_secrets import KEYS, make_secrets
from deploy.deployables import DEPLOYABLES
from deploy.elasticsearch.install import install, release
from tests.containers.built_images import BASE, VERSION, build_base, build_image
from tests.containers.engine import Engine, NoEngineError, opened_engine
from tests.soak.outcome import Bar, Outcome, page
from tests.support.go_programs import GO, programs_of_a_module
from tests.support.processes import ROOT

COMPOSE = "github.com/docker/compose/v2"
COMPOSE_VERSION = "v2.40.3"
HERE = ROOT / "tests" / "containers"
FILES = ("--file", "deploy/compose.yaml", "--file", "tests/containers/compose.override.yaml")
SYSTEMS = ("--env-file", "deploy/systems.env")
# A pipeline of each service beside those that README.md compares.
PIPELINES = ("bm25", "dense", "hybrid", "hybrid-colbert", "hybrid-rerank", "splade", "dense-bge", "dense-e5")
LOAD = ("ingest", "--dataset", "evaluator/collections/bicycle-workshop", "--collection", "demo")
EXPORT = ("export-collection", "demo", "--out", "/tmp/demo.jsonl")
# Not those of deploy/compose.yaml: on an engine that runs already, they are somebody's real stack and image.
PROJECT = "retrieval-stack-test"
ELASTICSEARCH_VERSION = f"{release().version}-{VERSION}"
GATEWAY = "https://127.0.0.1:8000"
# README.md's search.
SEARCH = {"query": "can I get my money back if the bike I bought is faulty", "top": 2, "include": ["title"]}
ANSWER = "Refund or repair: faulty new goods"
# Two shared cores score 100 candidates in seconds.
DEADLINE_MS = "30000"
BROKEN = (AssertionError, httpx.HTTPError, subprocess.TimeoutExpired)
SAYS = (
    f"Docker Compose {COMPOSE_VERSION}, built from its Go module, runs deploy/compose.yaml with all services of "
    "deploy/systems.env: TLS, keys, secrets, networks, limits, health checks. "
    "`tests/containers/compose.override.yaml` has what differs. "
    "Images stand on a base of Debian's packages; Elasticsearch's is made from the distribution of Maven Central.\n\n"
    "Qdrant does not run, because its image is in a registry alone: services keep their vectors on volumes. "
    f"Searches have a deadline of {int(DEADLINE_MS) // 1000} s, because all containers share the cores."
)


@dataclass
class Run:
    """One stack by Compose, and what was seen of it."""

    engine: Engine
    folder: Path
    bars: list[Bar] = field(default_factory=list)

    def compose(self, *words: str) -> str:
        """Returns what `docker compose WORDS` prints. Raises AssertionError with its last lines when it fails."""
        settings = {"STACK_SECRETS": str(self.folder), "STACK_VERSION": VERSION}
        settings["ELASTICSEARCH_VERSION"] = ELASTICSEARCH_VERSION
        by_compose = Engine(str(GO / "bin" / "cmd"), {**self.engine.environment, **settings})
        return by_compose.docker("--progress", "plain", "--project-name", PROJECT, *SYSTEMS, *FILES, *words)

    def evaluator(self, *words: str) -> str:
        return self.compose("exec", "-T", "evaluator", "python", "-m", "evaluator", *words)

    def up(self, promise: str) -> None:
        with self.bar(promise):
            self.compose("up", "--detach", "--wait", "--no-build", "--pull", "never")

    @contextlib.contextmanager
    def bar(self, promise: str) -> Iterator[None]:
        """Adds a bar, which holds when nothing of BROKEN is raised inside; the first that does not ends the run."""
        started, wrong = time.monotonic(), ""
        try:
            yield
        except BROKEN as missed:
            wrong = " ".join(f": {missed!r}".split())[-300:]
            raise
        finally:
            self.bars.append(Bar(promise, f"{time.monotonic() - started:.1f} s{wrong}", not wrong))
            print(f"{promise}: {self.bars[-1].measured}", flush=True)


def build_elasticsearch(engine: Engine) -> None:
    """Makes the image that deploy/compose.yaml names, from the distribution that deploy/elasticsearch installs."""
    with tempfile.TemporaryDirectory(prefix="elasticsearch-image-") as name:
        shutil.copytree(install(print).home, Path(name) / "home")
        shutil.copy(HERE / "elasticsearch-entrypoint.sh", name)
        tag = f"docker.elastic.co/elasticsearch/elasticsearch:{ELASTICSEARCH_VERSION}"
        print(f"image: {tag}", flush=True)
        dockerfile = HERE / "elasticsearch.Dockerfile"
        engine.docker("build", "--file", dockerfile, "--build-arg", f"BASE={BASE}", "--tag", tag, name)


def new_key(folder: Path) -> str:
    """Makes the secrets of a stack in a folder; returns a caller's key."""
    make_secrets(folder)
    command = [sys.executable, "-m", "gateway", "keys", "new", "--name", "caller", "--file", str(folder / KEYS)]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def found(client: httpx.Client, **more: str) -> list[dict[str, object]]:
    """Returns the hits of README.md's search. Raises AssertionError for an answer that is missing or degraded."""
    answer = client.post("/v1/collections/demo/search", json={**SEARCH, **more})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["hits"], answer.text
    assert not body["degraded"], body["degraded"]
    hits: list[dict[str, object]] = body["hits"]
    return hits


def rehearse(engine: Engine, folder: Path) -> list[Bar]:
    """Returns the bars of one life of the stack: up, loaded, searched, down, up, down with its data.

    `folder` gets its secrets. Images that are there are built again, from what is cached.
    """
    programs_of_a_module(COMPOSE, COMPOSE_VERSION, [f"{COMPOSE}/cmd"])
    run = Run(engine, folder)
    with run.bar(f"images built: {', '.join(DEPLOYABLES)}, Elasticsearch"):
        build_base(engine)
        build_elasticsearch(engine)
        for name in DEPLOYABLES:
            build_image(engine, name)
    key = new_key(folder)
    # The authority of the stack and no other.
    trusts = ssl.create_default_context(cafile=folder / "certificates" / "ca.crt")
    client = httpx.Client(base_url=GATEWAY, verify=trusts, trust_env=False, timeout=60.0)
    client.headers["x-deadline-ms"] = DEADLINE_MS
    try:
        with client:
            _live(run, client, key)
    except BROKEN as missed:
        print(missed, run.compose("logs", "--tail", "30"), flush=True)
    finally:
        # What a broken run leaves as well.
        with contextlib.suppress(*BROKEN), run.bar("`down --volumes`: no container, network or volume is left"):
            run.compose("down", "--volumes")
            mine = ("--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}")
            left = [engine.docker(*words, *mine) for words in (("ps", "--all"), ("network", "ls"), ("volume", "ls"))]
            assert not any(left), left
    return run.bars


def _live(run: Run, client: httpx.Client, key: str) -> None:
    run.up("`up --wait`: every health check of the file passes")
    with run.bar("the evaluator's container loads the bundled collection"):
        run.evaluator(*LOAD, "--pipelines", ",".join(PIPELINES))
    with run.bar("without a key 401, over TLS by the stack's authority"):
        status = client.post("/v1/collections/demo/search", json=SEARCH).status_code
        assert status == 401, status
    client.headers["authorization"] = f"Bearer {key}"
    with run.bar(f"README's search finds “{ANSWER}” first"):
        first = found(client)
        assert first[0]["title"] == ANSWER, first
    before = {}
    for pipeline in PIPELINES:
        with run.bar(f"`{pipeline}` answers, not degraded"):
            before[pipeline] = found(client, pipeline=pipeline)
    with run.bar("the evaluator exports all documents"):
        exported = run.evaluator(*EXPORT)
        assert ": 301 documents, digest " in exported, exported
    with run.bar("`down` removes the containers"):
        run.compose("down")
        assert not run.compose("ps", "--all", "--quiet")
    run.up("`up --wait` again")
    with run.bar("README's search and all pipelines find the same, in the same order"):
        assert _ids(found(client)) == _ids(first)
        for pipeline in PIPELINES:
            after = found(client, pipeline=pipeline)
            assert _ids(after) == _ids(before[pipeline]), (pipeline, after)
    with run.bar("all 301 documents are as they were, by the digest of another export"):
        assert run.evaluator(*EXPORT) == exported


def _ids(hits: list[dict[str, object]]) -> list[object]:
    return [hit["id"] for hit in hits]


def main() -> int:
    """Writes the page; returns 0 when every bar held, 1 otherwise."""
    started = time.monotonic()
    try:
        with opened_engine() as engine, tempfile.TemporaryDirectory(prefix="compose-secrets-") as folder:
            bars = rehearse(engine, Path(folder))
            server = engine.docker("version", "--format", "{{.Server.Version}}").strip()
    except NoEngineError as reason:
        print(f"no engine can be started here: {reason}")
        return 1
    rows = (("Docker Engine", server), ("Docker Compose", COMPOSE_VERSION), ("Elasticsearch", release().version))
    outcome = Outcome("Compose", SAYS, None, ("program", "version"), rows, tuple(bars), ())
    text = page(outcome, time.monotonic() - started, ".venv/bin/python -m tests.containers.compose")
    print(text)
    (ROOT / "docs" / "soak" / "compose.md").write_text(text, encoding="utf-8")
    return 0 if outcome.held else 1


if __name__ == "__main__":
    sys.exit(main())
