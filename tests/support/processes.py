"""Runs the whole stack as real processes on free ports: embedded engines, encoder and scorer without weights.

With tests/support/secured.py turned on, each has TLS, keys and the token, unless its own settings say otherwise.
"""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support import secured

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@dataclass
class Process:
    """One of our services, started by its module with its settings in the environment."""

    module: str
    environment: dict[str, str]
    port: int = field(default_factory=free_port)
    arguments: tuple[str, ...] = ()
    root: Path = ROOT  # the checkout whose code runs
    python: str = sys.executable
    trusts: ssl.SSLContext | None = None  # of a process with a certificate: by what its callers check it
    running: subprocess.Popen[bytes] | None = None
    log: Path | None = None

    @property
    def url(self) -> str:
        return f"{secured.scheme() if self.trusts is None else 'https'}://127.0.0.1:{self.port}"

    def start(self, log: Path) -> None:
        prefix = self.module.rpartition(".")[2].upper()
        more = secured.variables(prefix, self.environment)
        secured.protect(self.port, prefix)
        environment = {**os.environ, **more, **self.environment, f"{prefix}_PORT": str(self.port)}
        self.log = log
        with log.open("ab") as output:
            self.running = subprocess.Popen(
                [self.python, "-m", self.module, *self.arguments],
                cwd=self.root, env=environment, stdout=output, stderr=output,
            )  # fmt: skip

    @property
    def pid(self) -> int:
        assert self.running is not None
        return self.running.pid

    @property
    def alive(self) -> bool:
        return self.running is not None and self.running.poll() is None

    def send(self, number: signal.Signals) -> None:
        assert self.running is not None
        self.running.send_signal(number)

    def kill(self) -> None:
        """Sends SIGKILL."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()

    def client(self, timeout_s: float) -> httpx.AsyncClient:
        """Returns a client that trusts the process, with what opens it in the secure mode."""
        verify = self.trusts or secured.client_context(self.port) or True
        headers = secured.headers(self.port)
        return httpx.AsyncClient(base_url=self.url, timeout=timeout_s, trust_env=False, verify=verify, headers=headers)

    async def ready(self, within_s: float = 60.0) -> None:
        ends_at = time.monotonic() + within_s
        async with self.client(timeout_s=2.0) as client:
            while True:
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                assert self.alive, f"{self.module} ended before it was ready:\n{self._last_lines()}"
                assert time.monotonic() < ends_at, f"{self.module} was not ready in {within_s} s:\n{self._last_lines()}"
                await asyncio.sleep(0.05)

    def _last_lines(self) -> str:
        return "" if self.log is None else self.log.read_text(errors="replace")[-2000:]


VECTORS = ("dense", "sparse", "late_interaction")
STORING = ("lexical", *VECTORS)
# What a stack has that names no others; and all.
FAMILIES = ("lexical", "dense", "reranker")
ALL_FAMILIES = (*STORING, "reranker")


def services(
    directory: Path,
    root: Path = ROOT,
    models: bool = False,
    families: Sequence[str] = FAMILIES,
    lexical: Mapping[str, str] | None = None,
) -> dict[str, Process]:
    """Returns the services by family, not started; their data goes under `directory`.

    `models`: their default models, instead of hashes and overlap of words. `lexical`: settings of the lexical service,
    instead of the embedded engine.
    """

    def settings(family: str) -> dict[str, str]:
        prefix = family.upper()
        if family == "reranker":
            return {} if models else {"RERANKER_SCORER": "overlap"}
        stored = {f"{prefix}_DIRECTORY": f"{directory}/{family}"}
        if family == "lexical":
            return {"LEXICAL_ENGINE": "edge", **stored} if lexical is None else dict(lexical)
        return {f"{prefix}_STORE": "edge", **stored, **({} if models else {f"{prefix}_ENCODER": "hashing"})}

    return {family: Process(f"services.{family}", settings(family), root=root) for family in families}


def gateway(urls: Mapping[str, str], root: Path = ROOT) -> Process:
    """A gateway over one backend a family, not started."""
    backends = {family: {"family": family, "url": url} for family, url in urls.items()}
    return Process("gateway", {"GATEWAY_BACKENDS": json.dumps(backends)}, root=root)


@asynccontextmanager
async def started(
    directory: Path,
    root: Path = ROOT,
    models: bool = False,
    families: Sequence[str] = FAMILIES,
    lexical: Mapping[str, str] | None = None,
) -> AsyncIterator[dict[str, Process]]:
    """Yields the gateway and its services by family, ready; ends all of them, also stopped ones."""
    processes = services(directory, root, models, families, lexical)
    processes["gateway"] = gateway({name: one.url for name, one in processes.items()}, root)
    try:
        for name, one in processes.items():
            one.start(directory / f"{name}.log")
        for one in processes.values():
            await one.ready()
        yield processes
    finally:
        for one in processes.values():
            one.kill()
