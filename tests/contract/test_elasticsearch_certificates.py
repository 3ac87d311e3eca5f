"""The lexical service trusts the certificate of Elasticsearch as its settings say, and nobody else's."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from services.chassis.errors import Unavailable
from services.chassis.settings.configuration import ConfigurationError
from services.lexical.settings import LexicalSettings
from services.storage.elasticsearch.client import ElasticsearchClients
from tests.support.certificates import Certificates, Pair

KEY = "c2VjcmV0"
OK = (
    b"HTTP/1.1 200 OK\r\nX-Elastic-Product: Elasticsearch\r\nContent-Type: application/json\r\n"
    b"Content-Length: 2\r\n\r\n{}"
)


@asynccontextmanager
async def listening(pair: Pair) -> AsyncIterator[tuple[int, list[bytes]]]:
    """Yields the port of what answers with a certificate, and the heads that it was sent."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        await writer.drain()
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1], heads


def connect(url: str, ca_file: Path | None) -> ElasticsearchClients:
    given = {"elasticsearch_url": url, "elasticsearch_api_key": KEY, "elasticsearch_ca_file": ca_file}
    return ElasticsearchClients.connect(LexicalSettings.model_validate(given), 2)


async def ask(url: str, ca_file: Path | None) -> None:
    """Sends one request with the key."""
    clients = connect(url, ca_file)
    try:
        await clients.reading.answer(bytes, "GET", "/")
    finally:
        await clients.close()


@pytest.mark.parametrize("origin", ["https://127.0.0.1", "https://localhost", "HTTPS://127.0.0.1"])
async def test_the_key_goes_to_the_host_whose_certificate_the_authority_has_issued(origin: str, tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    async with listening(certificates.issue()) as (port, heads):
        await ask(f"{origin}:{port}", certificates.ca_file)
    assert [f"ApiKey {KEY}".encode() in head for head in heads] == [True]


@pytest.mark.parametrize("origin", ["https://127.0.0.1", "https://localhost", "HTTPS://127.0.0.1"])
async def test_a_certificate_of_another_host_gets_no_key(origin: str, tmp_path: Path) -> None:
    """Another service of the same stack has one of the same authority."""
    certificates = Certificates(tmp_path)
    async with listening(certificates.issue("lexical", "10.0.0.7")) as (port, heads):
        with pytest.raises(Unavailable, match="ELASTICSEARCH_CA_FILE"):
            await ask(f"{origin}:{port}", certificates.ca_file)
    assert heads == []


async def test_beside_a_named_authority_those_of_the_system_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, systems = Certificates(tmp_path, "ours"), Certificates(tmp_path, "systems")
    monkeypatch.setenv("SSL_CERT_FILE", str(systems.ca_file))
    async with listening(systems.issue()) as (port, heads):
        with pytest.raises(Unavailable, match="ELASTICSEARCH_CA_FILE"):
            await ask(f"https://127.0.0.1:{port}", ours.ca_file)
        assert heads == []
        await ask(f"https://127.0.0.1:{port}", None)
    assert len(heads) == 1


def test_a_file_without_a_certificate_is_refused_by_the_settings_name(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match="ELASTICSEARCH_CA_FILE"):
        connect("https://127.0.0.1:9", tmp_path / "ca.pem")
