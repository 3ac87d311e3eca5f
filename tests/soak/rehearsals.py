"""Rehearses what operators do, under traffic: each rehearsal counts failed searches and lost documents.

`python -m tests.soak upgrade restore node-lost full-disk certificate key`: each writes its part of
docs/soak/rehearsals.md.
"""

import asyncio
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx

from services.keys.key import KEY_SCOPES
from tests.soak import wire
from tests.soak.disks import fill_disk, free_disk, is_small_disk
from tests.soak.outcome import Bar, Outcome, wrapped
from tests.soak.stack import COLLECTION, WORDS, loaded_stack
from tests.soak.traffic import DEADLINE_MS, DWELL_S, PER_SECOND, STORES, WRITES_GO_ON_WITHIN_S, Traffic
from tests.support import secured
from tests.support.elasticsearch_nodes import ThreeNodes
from tests.support.elasticsearch_server import temporary_server
from tests.support.keys import TOKEN, bearing
from tests.support.processes import FAMILIES, ROOT, Process, gateway, started
from tests.support.replicas import Balancer, Replica, balanced

RELEASE = "release: 0.1.0"
TAKEN_OUT_S = 1.0  # from a replica's leaving its balancer to SIGTERM
COLUMNS = ("step", "seconds", "searches", "failed", "degraded", "slowest, ms", "documents acknowledged")
SAYS = (
    f"{PER_SECOND:.0f} searches by `hybrid-rerank` a second, due at fixed times, and one writer without pause. "
    f"*Failed*: every answer but 200, with a deadline of {DEADLINE_MS} ms. *Lost*: an acknowledged document that "
    "lexical does not hold in its last version at the end, or services that differ in their digests. Bars count what "
    "is between the steps too."
)


@dataclass
class Replicated:
    """Two replicas of each process behind a balancer each; stores on one Elasticsearch."""

    directory: Path
    balancers: dict[str, Balancer]
    environment: dict[str, dict[str, str]]
    replicas: dict[str, list[Process]] = field(default_factory=dict)

    async def start(self, name: str, root: Path = ROOT, python: str = sys.executable) -> Process:
        """Starts one more replica, which gets requests once it is ready."""
        module = "gateway" if name == "gateway" else f"services.{name}"
        process = Process(module, dict(self.environment[name]), root=root, python=python)
        self.replicas.setdefault(name, []).append(process)
        process.start(self.directory / f"{name}-{process.port}.log")
        if (mode := secured.mode()) is not None and name != "gateway":
            mode.secrets[process.port] = self.environment[name].get("STACK_TOKEN", TOKEN).split()[0]
        await process.ready()
        self.balancers[name].replicas = [Replica("127.0.0.1", one.port) for one in self.replicas[name]]
        return process

    async def roll(self, name: str) -> None:
        """Replaces every replica by one of the present code and settings, one after the other."""
        for old in tuple(self.replicas[name]):
            await self.start(name)
            self.replicas[name].remove(old)
            self.balancers[name].replicas = [Replica("127.0.0.1", one.port) for one in self.replicas[name]]
            await asyncio.sleep(TAKEN_OUT_S)
            old.send(signal.SIGTERM)
            assert old.running is not None
            await asyncio.to_thread(old.running.wait, 60)

    def close(self) -> None:
        for processes in self.replicas.values():
            for process in processes:
                process.kill()


@asynccontextmanager
async def replicated(root: Path = ROOT, python: str = sys.executable) -> AsyncIterator[Replicated]:
    """Yields two replicas of a gateway and three services of a checkout's code."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name, temporary_server() as elasticsearch:
        async with AsyncExitStack() as opened:
            balancers = {one: await opened.enter_async_context(balanced([])) for one in (*FAMILIES, "gateway")}
            for one, balancer in balancers.items():
                secured.protect(balancer.port, one.upper())
            urls = {one: f"{secured.scheme()}://127.0.0.1:{balancers[one].port}" for one in FAMILIES}
            on_elasticsearch = {"ELASTICSEARCH_URL": elasticsearch.url}
            environment = {
                "lexical": {"LEXICAL_ENGINE": "elasticsearch", **on_elasticsearch},
                "dense": {"DENSE_STORE": "elasticsearch", "DENSE_ENCODER": "hashing", **on_elasticsearch},
                "reranker": {"RERANKER_SCORER": "overlap"},
                "gateway": gateway(urls).environment,
            }
            stack = Replicated(Path(name), balancers, environment)
            opened.callback(stack.close)
            for one in (*FAMILIES, "gateway"):
                for _ in range(2):
                    await stack.start(one, root, python)
            yield stack


def _traffic(stack: Replicated, rng: random.Random) -> Traffic:
    return Traffic(stack.balancers["gateway"].port, {one: stack.balancers[one].port for one in STORES}, rng)


async def upgrade(rng: random.Random) -> tuple[Traffic, list[Bar]]:
    """Replaces release 0.1.0 by the present code: services first, two replicas each, the gateway last."""
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        root = Path(name)
        commit, python = _released(root)
        async with replicated(root, python) as stack:
            traffic = _traffic(stack, rng)
            await traffic.load()
            async with traffic.flowing():
                for one in (*FAMILIES, "gateway"):
                    with traffic.step(f"{one}: 2 of {commit[:8]} to 2 of the present"):
                        await stack.roll(one)
                        await asyncio.sleep(DWELL_S)
                with traffic.step("the present alone"):
                    await asyncio.sleep(DWELL_S)
            running = {process.root for replicas in stack.replicas.values() for process in replicas}
            lost = await traffic.lost()
            return traffic, [
                _none_lost(traffic, lost),
                Bar("only the present runs", f"{running == {ROOT}}", running == {ROOT}),
            ]


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def _released(root: Path) -> tuple[str, str]:
    """Unpacks the release; returns its commit and its interpreter: ours, or one with its own lock if that differs."""
    commit = _git("log", "--format=%H", "--grep", f"^{RELEASE}$", "-1").decode().strip()
    subprocess.run(["tar", "-x", "-C", str(root)], input=_git("archive", commit), check=True)
    lock, python = root / "requirements.lock", root / ".venv" / "bin" / "python"
    if lock.read_bytes() == (ROOT / "requirements.lock").read_bytes():
        return commit, sys.executable
    subprocess.run([sys.executable, "-m", "venv", str(root / ".venv")], check=True)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--require-hashes", "--requirement", str(lock)]
    subprocess.run([*uv, "--python", str(python)], check=True)
    return commit, str(python)


async def restore(rng: random.Random) -> tuple[Traffic, list[Bar]]:
    """Exports a collection after traffic, and restores it on an empty stack."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        first, second = Path(name) / "first", Path(name) / "second"
        first.mkdir()
        second.mkdir()
        file = Path(name) / "export.jsonl"
        queries = [" ".join(rng.choices(WORDS, k=3)) for _ in range(20)]
        async with started(first) as processes:
            traffic = Traffic(processes["gateway"].port, {one: processes[one].port for one in STORES}, rng)
            await traffic.load()
            with traffic.step("traffic"):
                async with traffic.flowing():
                    pass
            with traffic.step("export-collection"):
                await _evaluator(traffic.port, "export-collection", COLLECTION, "--out", str(file))
            before = [await _hits(traffic.port, query) for query in queries]
        async with started(second) as processes:
            traffic.port, traffic.stores = processes["gateway"].port, {one: processes[one].port for one in STORES}
            with traffic.step("restore on an empty stack"):
                await _evaluator(traffic.port, "restore", str(file), "--collection", COLLECTION)
            with traffic.step("traffic"):
                after = [await _hits(traffic.port, query) for query in queries]
                lost = await traffic.lost()
                async with traffic.flowing():
                    pass
    same = sum(one == other for one, other in zip(before, after, strict=True))
    return traffic, [
        _none_lost(traffic, lost),
        Bar("the same hits and scores", f"{same} of {len(queries)}", before == after),
    ]


async def _evaluator(port: int, *arguments: str) -> None:
    command = [sys.executable, "-m", "evaluator", *arguments, "--gateway", f"{secured.scheme()}://127.0.0.1:{port}"]
    done = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


async def _hits(port: int, query: str) -> object:
    body = {"query": query, "pipeline": "hybrid-rerank"}
    answer = await wire.ask(port, "POST", f"/v1/collections/{COLLECTION}/search", body)
    return answer.raise_for_status().json()["hits"]


async def node_lost(rng: random.Random) -> tuple[Traffic, list[Bar]]:
    """Kills one of three Elasticsearch nodes that holds primaries, of three shards with a replica each."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        data = Path(name)
        os.chmod(data, 0o755)
        nodes = ThreeNodes(data / "nodes")
        try:
            url = nodes.start_all()
            settings = {"LEXICAL_ENGINE": "elasticsearch", "ELASTICSEARCH_URL": url}
            copies = {"LEXICAL_SHARDS": "3", "LEXICAL_REPLICAS": "1"}
            async with (
                started(data, lexical={**settings, **copies}) as processes,
                httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as elasticsearch,
            ):
                green = "/_cluster/health?wait_for_status=green&timeout=90s"
                traffic = Traffic(processes["gateway"].port, {one: processes[one].port for one in STORES}, rng)
                await traffic.load()
                assert (await elasticsearch.get(green)).json()["status"] == "green"
                shards = (await elasticsearch.get("/_cat/shards?format=json")).json()
                primaries = Counter(one["node"] for one in shards if one["prirep"] == "p" and one["node"] != "node-1")
                number = int(primaries.most_common()[0][0].removeprefix("node-"))  # we ask the first one
                async with traffic.flowing():
                    with traffic.step("three nodes"):
                        await asyncio.sleep(DWELL_S)
                    with traffic.step(f"node-{number}, with {primaries[f'node-{number}']} primaries, killed"):
                        nodes.kill(number)
                        await asyncio.sleep(10.0)
                    with traffic.step("started again, until green"):
                        await asyncio.to_thread(nodes.rejoin, number)
                        health = (await elasticsearch.get(green)).json()
                lost = await traffic.lost()
        finally:
            nodes.close()
    whole = (health["status"], health["number_of_nodes"]) == ("green", 3)
    return traffic, [_none_lost(traffic, lost), Bar("green again, with three nodes", str(health["status"]), whole)]


async def full_disk(rng: random.Random) -> tuple[Traffic, list[Bar]]:
    """Fills the disk of each service that stores, one after the other, and frees it."""
    refused = []
    async with loaded_stack(0, small_disks=True) as stack:
        traffic = Traffic(stack.port("gateway"), {one: stack.port(one) for one in STORES}, rng)
        await traffic.load()
        async with traffic.flowing():
            for one in STORES:
                disk = stack.directory / one
                assert is_small_disk(disk), "a full disk needs the right to mount one"
                with traffic.step(f"{one}: the disk is full"):
                    fill_disk(disk)
                    await asyncio.sleep(1.0)  # a batch in work
                    during = traffic.acknowledged
                    await asyncio.sleep(2 * DWELL_S)
                    refused.append(traffic.acknowledged == during)
                free_disk(disk)
                with traffic.step(f"{one}: freed, until a write is complete"):
                    before = traffic.acknowledged
                    await _hold(partial(_writes_since, traffic, before))
        lost = await traffic.lost()
    bar = Bar("no write to a full disk is called complete", f"{sum(refused)} of {len(refused)} disks", all(refused))
    return traffic, [_none_lost(traffic, lost), bar, _none_degraded(traffic)]


async def _writes_since(traffic: Traffic, before: int) -> bool:
    return traffic.acknowledged > before


async def certificate(rng: random.Random) -> tuple[Traffic, list[Bar]]:
    """Replaces the certificate and its key below every running process, by others of the same authority."""
    with secured.turned_on() as mode, tempfile.TemporaryDirectory(prefix="soak-") as name:
        async with started(Path(name)) as processes:
            traffic = Traffic(processes["gateway"].port, {one: processes[one].port for one in STORES}, rng)
            await traffic.load()
            async with traffic.flowing():
                for number in (1, 2, 3):
                    mode.pair.replaced_by(mode.certificates.issue())
                    wanted = ssl.PEM_cert_to_DER_cert(mode.pair.cert.read_text())
                    with traffic.step(f"replacement {number}, until all {len(processes)} processes show it"):
                        for process in processes.values():
                            await _hold(partial(_shows, process.port, wanted))
                    with traffic.step("on"):
                        await asyncio.sleep(DWELL_S)
            restarted = [one for one, process in processes.items() if not process.alive]
            lost = await traffic.lost()
    bars = [Bar("no process has ended", ", ".join(restarted) or "none", not restarted), _none_degraded(traffic)]
    return traffic, [_none_lost(traffic, lost), *bars]


async def _shows(port: int, wanted: bytes) -> bool:
    def shown() -> bytes | None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with secured.connected(port, 10.0, context) as connection:
            assert isinstance(connection, ssl.SSLSocket)
            return connection.getpeercert(binary_form=True)

    return await asyncio.to_thread(shown) == wanted


async def key(rng: random.Random) -> tuple[Traffic, list[Bar]]:
    """Rotates the stack's token process by process, while services accept two; then a caller's key, without a start."""
    fresh = f"{TOKEN}-fresh"
    with secured.turned_on() as mode:
        async with replicated() as stack:
            traffic = _traffic(stack, rng)
            await traffic.load()
            async with traffic.flowing():
                for names, tokens, says in (
                    (FAMILIES, f"{TOKEN} {fresh}", "takes the old token and the new"),
                    (("gateway",), fresh, "sends the new token"),
                    (FAMILIES, fresh, "takes the new token alone"),
                ):
                    for one in names:
                        stack.environment[one]["STACK_TOKEN"] = tokens
                        with traffic.step(f"{one} {says}"):
                            await stack.roll(one)
                with traffic.step("a new key of a caller, until both gateways take it"):
                    secret = mode.keys.add("fresh", *KEY_SCOPES)
                    await _until(stack.replicas["gateway"], secret, 200)
                    mode.secrets[traffic.port] = secret
                    await asyncio.sleep(DWELL_S)  # requests with the old one end
                with traffic.step("the old key revoked, until both gateways refuse it"):
                    mode.keys.revoke("tests")
                    await _until(stack.replicas["gateway"], mode.key, 401)
            for one in STORES:
                mode.secrets[stack.balancers[one].port] = fresh
            lost = await traffic.lost()
            await _until([process for one in STORES for process in stack.replicas[one]], TOKEN, 401)
    return traffic, [_none_lost(traffic, lost), _none_degraded(traffic)]


async def _until(processes: Sequence[Process], secret: str, status: int) -> None:
    """Waits until every process answers a secret with this status."""

    async def answer(process: Process) -> bool:
        path = "/v1/pipelines" if process.module == "gateway" else "/v1/collections"
        return (await wire.ask(process.port, "GET", path, headers=bearing(secret))).status_code == status

    for process in processes:
        await _hold(partial(answer, process))


async def _hold(condition: Callable[[], Awaitable[bool]]) -> None:
    """Waits until a condition holds. Raises TimeoutError."""
    async with asyncio.timeout(WRITES_GO_ON_WITHIN_S):
        while not await condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.05)


def _none_lost(traffic: Traffic, lost: Sequence[str]) -> Bar:
    print(*lost[:5], sep="\n", file=sys.stderr)
    writes = f"{len(traffic.ledger.writes)} documents, {traffic.acknowledged} times written again"
    return Bar("documents lost: 0", f"{len(lost)} of {writes}", not lost)


def _none_degraded(traffic: Traffic) -> Bar:
    said = ", ".join(f"{stage}: {count}" for stage, count in sorted(traffic.degraded.items()))
    return Bar("no search is degraded", said or "none", not traffic.degraded)


REHEARSALS: Mapping[str, Callable[[random.Random], Awaitable[tuple[Traffic, list[Bar]]]]] = {
    "upgrade": upgrade,
    "restore": restore,
    "node-lost": node_lost,
    "full-disk": full_disk,
    "certificate": certificate,
    "key": key,
}


async def run(name: str, seed: int) -> Outcome:
    """Runs one rehearsal."""
    load_before = os.getloadavg()[0]
    traffic, bars = await REHEARSALS[name](random.Random(seed))
    said = ", ".join(f"{stage}: {count}" for stage, count in sorted(traffic.degraded.items()))
    failed = [f"{count} searches: {what}" for what, count in traffic.failed.items()]
    return Outcome(
        name=name,
        says=f"{(REHEARSALS[name].__doc__ or '').strip()} Degraded: {said or 'no search'}. "
        f"Load of the machine: {load_before:.0f} before, by other work, {os.getloadavg()[0]:.0f} at the end.",
        seed=seed,
        columns=COLUMNS,
        rows=tuple(traffic.rows),
        bars=(
            Bar("searches failed: 0", f"{traffic.failed.total()} of {traffic.searches}", not traffic.failed),
            *bars,
            Bar("writes go on at the end", "no" if traffic.stuck else "yes", not traffic.stuck),
        ),
        broken=tuple(failed),
    )


def put_section(file: Path, text: str) -> None:
    """Puts a rehearsal's page as a section into the page of all, in the place of its last one."""
    title, _, rest = text.removeprefix("# Soak: ").partition("\n")
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    parts = [part.partition("\n") for part in old.split("\n## ")[1:]]
    sections = {name: body.strip() for name, _, body in parts} | {title: rest.replace("\n## ", "\n### ").strip()}
    head = f"# Rehearsals\n\n{wrapped(SAYS)}\n"
    body = [f"\n## {name}\n\n{sections[name]}\n" for name in REHEARSALS if name in sections]
    file.write_text(head + "".join(body), encoding="utf-8")
