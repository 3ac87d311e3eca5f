"""No answer, log, file or command line of our processes shows a secret that they were given."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from deploy.local.checks import SETTINGS
from services.chassis.settings.service_settings import KeyedSettings, ServiceSettings
from tests.support import secured
from tests.support.gateway_stub import write_shop
from tests.support.keys import bearing, made_keys, typed
from tests.support.planted_secrets import ROOT, PlantedSecrets, settings_of_processes
from tests.support.processes import Process, free_port, gateway, services

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

DOCUMENT = {"id": "d1", "text": "a brass bell painted red"}
EVERYWHERE = ("/livez", "/readyz", "/metrics", "/openapi.json", "/", "/docs", "/v1/collections", "/nothing/here")


@pytest.fixture(scope="module")
def planted() -> PlantedSecrets:
    return PlantedSecrets.everywhere()


def callers(planted: PlantedSecrets) -> list[dict[str, str]]:
    """Returns the headers of our own processes, of a caller with a wrong key in several places, and of one without."""
    wrong = planted.by_place["the key of nobody"]
    return [
        {"authorization": f"Bearer {planted.by_place['STACK_TOKEN']}"},
        {"authorization": f"Bearer {wrong}", "x-api-key": wrong, "api-key": wrong, "cookie": f"key={wrong}"},
        {"authorization": f"Basic {wrong}"},
        {},
    ]


def give_secrets(
    process: Process, settings: type[ServiceSettings], planted: PlantedSecrets, files: Path | None = None
) -> None:
    """Puts a process's secrets into its environment, or into files; everything is logged."""
    given = planted.environment(settings)
    if files is not None:
        files.mkdir(parents=True)
        for name, secret in given.items():
            (files / name).write_text(f"{secret}\n")
        given = {f"{name}_FILE": str(files / name) for name in given}
    process.environment |= given | {f"{settings.model_config.get('env_prefix')}LOG_LEVEL": "debug"}


async def ask(
    url: str, requests: Iterable[tuple[str, str, object]], callers: Iterable[Mapping[str, str]]
) -> list[tuple[int, bytes]]:
    """Sends requests (method, path, body) as each caller; returns the status and all bytes of each answer."""
    answers = []
    # A connection each: the answer to each further wrong key of one connection comes later.
    limits = httpx.Limits(max_keepalive_connections=0)
    verify = secured.client_context(httpx.URL(url).port or 0) or True
    async with httpx.AsyncClient(base_url=url, timeout=30.0, trust_env=False, limits=limits, verify=verify) as client:
        for headers in callers:
            for method, path, body in requests:
                sent = {"content": body} if isinstance(body, bytes) else {"json": body} if body is not None else {}
                given = {"content-type": "application/json", **headers}
                try:
                    answer = await client.request(method, path, headers=given, **sent)
                except httpx.TransportError:
                    continue  # refused with a closed connection
                answers.append((answer.status_code, str(answer.headers.raw).encode() + answer.content))
    return answers


@asynccontextmanager
async def running(processes: Mapping[str, Process], logs: Path) -> AsyncIterator[None]:
    """Starts the processes, and ends them as an orchestrator does."""
    os.mkdir(logs)
    try:
        for name, process in processes.items():
            process.start(logs / f"{name}.log")
        yield
        for process in processes.values():
            process.send(signal.SIGTERM)
        for process in processes.values():
            assert process.running is not None
            await asyncio.to_thread(process.running.wait, 60)
    finally:
        for process in processes.values():
            process.kill()


def command_of(process: Process) -> bytes:
    """Returns the command line, which every user of the machine can read."""
    return Path(f"/proc/{process.pid}/cmdline").read_bytes()


def evaluator(planted: PlantedSecrets, gateway_url: str, *words: str) -> bytes:
    """Runs a command of the evaluator with all of its secrets; returns what it says."""
    secrets = planted.environment(SETTINGS["evaluator"])
    done = subprocess.run(
        [sys.executable, "-m", "evaluator", *words], cwd=ROOT, timeout=200, check=False,
        env={**os.environ, **secrets, "GATEWAY_URL": gateway_url}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout


def experiment(dataset: Path) -> dict[str, object]:
    traffic = {"rates": [20], "seconds": 1, "warmup_seconds": 0, "slice_seconds": 1}
    pipelines = ["bm25", "dense", "hybrid-rerank"]
    return {"name": "small", "dataset": str(dataset), "pipelines": pipelines, "warmup": 1, "load": traffic}


def test_every_secret_is_found_wherever_it_is_shown(planted: PlantedSecrets, tmp_path: Path) -> None:
    (tmp_path / "shown").write_text(" ".join(planted.by_place.values()))
    (tmp_path / "hidden").write_text("nothing")
    assert planted.found_below(tmp_path) == {str(tmp_path / "shown"): set(planted.by_place)}
    assert set(settings_of_processes()) == set(SETTINGS.values())


async def test_a_stack_that_indexes_searches_fails_and_measures_shows_no_secret(
    planted: PlantedSecrets, tmp_path: Path
) -> None:
    processes = services(tmp_path / "data")
    processes["gateway"] = gateway({name: process.url for name, process in processes.items()})
    keys = made_keys(tmp_path)
    planted = planted.with_keys(keys)
    runs, dataset = tmp_path / "runs", write_shop(tmp_path / "shop")
    at = {"GATEWAY_URL": processes["gateway"].url, "EVALUATOR_RUNS": str(runs)}
    processes["evaluator"] = Process("evaluator", at, arguments=("serve",))
    for name, process in processes.items():
        give_secrets(process, SETTINGS[name], planted, tmp_path / "secrets" / name if name == "reranker" else None)
        if issubclass(SETTINGS[name], KeyedSettings):
            process.environment[f"{name.upper()}_KEYS_FILE"] = str(keys.file)
    plan = tmp_path / "small.yaml"
    plan.write_text(json.dumps(experiment(dataset)))
    said, answers = [], []
    async with running(processes, tmp_path / "logs"):
        for process in processes.values():
            await process.ready()
            said.append(command_of(process))
        url = processes["gateway"].url
        words = ("run", str(plan), "--runs", str(runs))
        said.append(await asyncio.to_thread(evaluator, planted, url, *words))
        (report,) = runs.glob("2*/report.json")
        collections = "/v1/collections/shop"
        requests = [
            *(("GET", path, None) for path in EVERYWHERE),
            ("POST", f"{collections}/search?api_key={planted.by_place['the key of nobody']}", {"query": "red bell"}),
            ("POST", f"{collections}/search", {"query": "red bell", "pipeline": "none"}),
            ("POST", "/v1/collections/none/search", {"query": "red bell"}),
            ("PUT", "/v1/collections/more", {}),
            ("POST", "/v1/collections/more/documents", {"documents": [DOCUMENT], "build": "none"}),
            ("POST", f"{collections}/documents", b'{"documents": ['),
            ("POST", "/v1/pipelines/reload", None),
            ("POST", "/v1/score", {"query": "bell", "passages": [{"id": "d1", "text": "bell"}]}),
            ("POST", "/v1/rerank", {"query": "bell", "documents": ["bell"], "model": "any"}),
            ("POST", "/v1/embeddings", {"input": "bell", "model": "any"}),
            ("POST", "/v1/experiments", experiment(dataset)),
            ("GET", "/v1/experiments", None),
            ("GET", f"/runs/{report.parent.name}", None),
        ]
        for process in processes.values():
            right = [bearing(keys.secrets[name]) for name in ("all", "search")]
            answers += await ask(process.url, requests, [*callers(planted), *right])
            answers += await ask(process.url, requests[:3], [bearing(keys.secrets["revoked"])])
            for key in keys.secrets.values():
                answers += await ask(process.url, [("GET", "/", None), ("GET", f"/?key={key}", None)], [typed(key)])
        processes["lexical"].kill()
        answers += await ask(url, requests[:12], callers(planted))
        processes["lexical"].start(tmp_path / "logs" / "lexical.log")
        await processes["lexical"].ready()
        nowhere = f"http://127.0.0.1:{free_port()}"
        said.append(await asyncio.to_thread(evaluator, planted, nowhere, *words, "--wait", "0"))
    assert {200, 401, 403, 404, 422} <= {status for status, _ in answers}
    assert planted.found_in(*said, *(shown for _, shown in answers)) == set()
    assert planted.found_below(tmp_path, [tmp_path / "secrets"]) == {}


@asynccontextmanager
async def hostile_store() -> AsyncIterator[tuple[int, list[bytes]]]:
    """Yields the port of a store that refuses one request and breaks the next connection; and what it was sent."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.read(65_536))
        if len(heads) % 2:
            body = b'{"error": {"root_cause": [{"type": "security_exception", "reason": "no"}]}, "status": 401}'
            head = "HTTP/1.1 401 No\r\ncontent-type: application/json\r\nx-elastic-product: Elasticsearch\r\n"
            writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


STORES = {
    "elasticsearch": ("lexical", {"LEXICAL_ENGINE": "elasticsearch"}, "ELASTICSEARCH"),
    "vectors": ("dense", {"DENSE_STORE": "elasticsearch", "DENSE_ENCODER": "hashing"}, "ELASTICSEARCH"),
    "qdrant": ("dense", {"DENSE_STORE": "qdrant", "DENSE_ENCODER": "hashing"}, "QDRANT"),
}


@pytest.mark.parametrize("store", STORES)
async def test_a_store_that_fails_makes_no_service_show_its_keys(
    planted: PlantedSecrets, tmp_path: Path, store: str
) -> None:
    name, settings, variable = STORES[store]
    generation = "/v1/collections/notes@1"
    requests = [
        *(("GET", path, None) for path in EVERYWHERE),
        ("PUT", generation, {}),
        ("GET", generation, None),
        ("POST", f"{generation}/documents", {"documents": [DOCUMENT]}),
        ("POST", f"{generation}/search", {"query": "red bell"}),
        ("DELETE", generation, None),
    ]
    async with hostile_store() as (port, sent):
        address = {f"{variable}_URL": f"http://127.0.0.1:{port}"}
        process = Process(f"services.{name}", settings | address)
        give_secrets(process, SETTINGS[name], planted)
        async with running({name: process}, tmp_path / "logs"):
            await listening(process)
            answers = await ask(process.url, [*requests, *requests], callers(planted))
    assert {status for status, _ in answers} & {502, 503}
    assert planted.found_in(*(shown for _, shown in answers)) == set()
    assert planted.found_below(tmp_path) == {}
    # The keys were sent, so that they could have been shown.
    assert f"{variable}_SEARCH_API_KEY" in planted.found_in(*sent)


async def listening(process: Process, within_s: float = 60.0) -> None:
    """Waits until a process answers; its store may be missing."""
    ends_at = time.monotonic() + within_s
    async with process.client(timeout_s=5.0) as client:
        while True:
            try:
                await client.get("/livez")
                return
            except httpx.TransportError:
                assert time.monotonic() < ends_at, f"{process.module} did not listen within {within_s} s"
                await asyncio.sleep(0.1)


# Settings that no process starts with (`{password}` and `{token}` are planted), who reads them, what a refusal says.
FAULTS: tuple[tuple[dict[str, str], tuple[str, ...], str], ...] = (
    ({"STACK_TOKEN": "{token} short"}, ("gateway", "evaluator"), "STACK_TOKEN: each token needs"),
    ({"STACK_TOKEN_FILE": "pyproject.toml"}, ("reranker",), "STACK_TOKEN and STACK_TOKEN_FILE are both set"),
    (
        {"DENSE_STORE": "qdrant", "QDRANT_URL": "http://store.example"},
        ("dense",),
        "QDRANT_API_KEY would travel unencrypted to store.example",
    ),
    ({"ELASTICSEARCH_URL": "https://a:{password}@store.example"}, ("lexical",), "ELASTICSEARCH_URL: it holds a user"),
    (
        {"GATEWAY_BACKENDS": '{"lexical": "http://a:{password}@lexical'},
        ("gateway",),
        "GATEWAY_BACKENDS: it is not JSON",
    ),
)


@pytest.mark.parametrize(
    ("fault", "name", "says"), [(fault, name, says) for fault, names, says in FAULTS for name in names]
)
def test_a_start_that_is_refused_says_why_and_shows_no_secret(
    planted: PlantedSecrets, fault: dict[str, str], name: str, says: str
) -> None:
    places = {"{password}": "the password in an address", "{token}": "STACK_TOKEN"}
    environment = {**os.environ, **planted.environment(SETTINGS[name]), "COLUMNS": "200"} | fault
    for variable in fault:
        for place, secret in places.items():
            environment[variable] = environment[variable].replace(place, planted.by_place[secret])
    module = {"gateway": ["gateway"], "evaluator": ["evaluator", "serve"]}.get(name, [f"services.{name}"])
    done = subprocess.run(
        [sys.executable, "-m", *module], cwd=ROOT, env=environment, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"{name}: cannot start: " in done.stderr.decode()
    assert says in done.stderr.decode()
    assert planted.found_in(done.stderr) == set()
