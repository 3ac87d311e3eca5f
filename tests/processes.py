"""The whole stack as real processes on free ports: embedded engines, encoder and scorer without weights."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]


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
    running: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, log: Path) -> None:
        prefix = self.module.rpartition(".")[2].upper()
        environment = {**os.environ, **self.environment, f"{prefix}_PORT": str(self.port)}
        with log.open("ab") as output:
            self.running = subprocess.Popen(
                [sys.executable, "-m", self.module], cwd=ROOT, env=environment, stdout=output, stderr=output
            )

    def send(self, number: signal.Signals) -> None:
        assert self.running is not None
        self.running.send_signal(number)

    def kill(self) -> None:
        """SIGKILL: no goodbye to anybody."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()

    async def ready(self, within_s: float = 60.0) -> None:
        ends_at = time.monotonic() + within_s
        async with httpx.AsyncClient(base_url=self.url, timeout=2.0, trust_env=False) as client:
            while True:
                try:
                    if (await client.get("/readyz")).status_code == 200:
                        return
                except httpx.HTTPError:
                    pass
                assert time.monotonic() < ends_at, f"{self.module} was not ready within {within_s} s"
                await asyncio.sleep(0.05)


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[dict[str, Process]]:
    """Gateway, lexical, dense and reranker, ready; all ended at the end, whatever state they are in."""
    processes = {
        "lexical": Process("services.lexical", {"LEXICAL_ENGINE": "edge", "LEXICAL_DIRECTORY": f"{directory}/lexical"}),
        "dense": Process(
            "services.dense",
            {"DENSE_STORE": "edge", "DENSE_ENCODER": "hashing", "DENSE_DIRECTORY": f"{directory}/dense"},
        ),
        "reranker": Process("services.reranker", {"RERANKER_SCORER": "overlap"}),
    }
    backends = ", ".join(f'"{name}": {{"family": "{name}", "url": "{one.url}"}}' for name, one in processes.items())
    processes["gateway"] = Process("gateway", {"GATEWAY_BACKENDS": f"{{{backends}}}"})
    try:
        for name, one in processes.items():
            one.start(directory / f"{name}.log")
        for one in processes.values():
            await one.ready()
        yield processes
    finally:
        for one in processes.values():
            one.kill()
