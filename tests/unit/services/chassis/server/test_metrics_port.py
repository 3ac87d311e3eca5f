import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from services.chassis.server.connections import ConnectionBounds
from services.chassis.server.serve import build_server, open_and_serve
from services.chassis.settings.configuration import BadSettings, read_settings
from services.chassis.settings.service_settings import ServiceSettings
from services.lexical.settings import LexicalSettings
from tests.support.certificates import Certificates
from tests.support.chassis_app import small_app
from tests.support.processes import free_port
from tests.support.served import bounded, port_of


@asynccontextmanager
async def started(settings: ServiceSettings) -> AsyncIterator[str]:
    """Yields the address of an app that is opened and served as a process does it."""
    app = small_app(settings)
    server = build_server(app, settings)
    serving = asyncio.create_task(open_and_serve(app, server))
    while not server.started:
        assert not serving.done()
        await asyncio.sleep(0.01)
    try:
        yield f"127.0.0.1:{port_of(server)}"
    finally:
        server.should_exit = True
        await serving


async def test_metrics_have_a_port_of_their_own_in_plain_http_and_nothing_else_is_there(tmp_path: Path) -> None:
    made, port = Certificates(tmp_path), free_port()
    settings = ServiceSettings(port=0, metrics_port=port, **made.issue().settings)
    async with started(settings) as main, httpx.AsyncClient(verify=made.context) as client:
        assert (await client.get(f"https://{main}/livez")).status_code == 200
        found = await client.get(f"http://127.0.0.1:{port}/metrics")
        assert 'http_requests_total{method="GET",route="/livez",status="200"} 1.0' in found.text
        for elsewhere in (f"https://{main}/metrics", f"http://127.0.0.1:{port}/livez", f"http://127.0.0.1:{port}/"):
            assert (await client.get(elsewhere)).status_code == 404, elsewhere
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):  # it ends with the process
            await client.get(f"http://127.0.0.1:{port}/metrics")


async def test_a_slow_scraper_is_ended() -> None:
    settings = ServiceSettings(port=0, metrics_port=0)
    with bounded(small_app(settings), ConnectionBounds(), settings=settings) as server:
        server.metrics_state.bounds = ConnectionBounds(head_s=0.3)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.servers[1].sockets[0].getsockname()[1])
        writer.write(b"GET /metr")
        assert (await asyncio.wait_for(reader.read(), 5.0)).startswith(b"HTTP/1.1 408 ")
        writer.close()


def test_the_port_of_metrics_is_not_the_main_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEXICAL_METRICS_PORT", "8001")
    with pytest.raises(BadSettings, match=r"^LEXICAL_METRICS_PORT=8001"):
        read_settings(LexicalSettings)


def test_a_port_of_metrics_in_use_ends_the_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = {"LEXICAL_PORT": "0", "LEXICAL_METRICS_PORT": str(port)}
        process = subprocess.run(
            [sys.executable, "-m", "services.lexical"],
            env=os.environ | ports | {"LEXICAL_DIRECTORY": str(tmp_path)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert "address already in use" in process.stdout + process.stderr
    assert process.returncode == 1
