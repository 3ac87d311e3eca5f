"""A failing Elasticsearch gives a clear problem in time, and never a partial ranking."""

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx
import pytest

from services.chassis.settings.configuration import ConfigurationError
from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from tests.support.elasticsearch_stub import META, ElasticsearchStub, Reply
from tests.support.opened_client import opened_client

SEARCH = "/v1/collections/notes@1/search"
HITS = {"hits": [{"sort": [1.5, "a"]}]}
WHOLE = Reply({"timed_out": False, "_shards": {"failed": 0}, "hits": HITS})


def service(url: str) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    return opened_client(build_app(LexicalSettings(engine="elasticsearch", elasticsearch_url=url)))


async def search(client: httpx.AsyncClient, deadline_ms: int = 5_000) -> httpx.Response:
    return await client.post(SEARCH, json={"query": "brake"}, headers={"x-deadline-ms": str(deadline_ms)})


async def test_a_whole_answer_is_a_ranking() -> None:
    async with ElasticsearchStub(reply=lambda path: WHOLE).listening() as url, service(url) as client:
        assert (await search(client)).json()["hits"] == [{"id": "a", "score": 1.5}]


FAULTS = {
    "a search that timed out": (Reply({"timed_out": True, "_shards": {"failed": 0}, "hits": HITS}), 504),
    "a failed shard": (Reply({"timed_out": False, "_shards": {"failed": 1}, "hits": HITS}), 502),
    "an answer without its shards": (Reply({"hits": HITS}), 502),
    "a score that is no number": (
        Reply({"timed_out": False, "_shards": {"failed": 0}, "hits": {"hits": [{"sort": [None, "a"]}]}}),
        502,
    ),
    "broken JSON": (Reply('{"timed_out": fal'), 502),
    "an HTML page": (Reply("<html>It works!</html>", content_type="text/html"), 502),
    "an HTML error page": (Reply("<html>Bad gateway</html>", status=502, content_type="text/html"), 503),
    "an unfinished answer": (Reply({"timed_out": False}, broken=True), 503),
    "overload": (Reply({"error": {"type": "es_rejected_execution_exception"}}, status=429), 429),
    "a cluster without a master": (Reply({"error": {"type": "cluster_block_exception"}}, status=503), 503),
    "an error inside": (Reply({"error": {"type": "null_pointer_exception"}}, status=500), 502),
    "a refused key": (Reply({"error": {"type": "security_exception"}}, status=401), 503),
    "a removed index": (Reply({"error": {"type": "index_not_found_exception"}}, status=404), 404),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_a_problem_and_the_next_search_is_fine(fault: str) -> None:
    reply, status = FAULTS[fault]
    stub = ElasticsearchStub(reply=lambda path: reply)
    async with stub.listening() as url, service(url) as client:
        answer = await search(client)
        assert (answer.status_code, answer.json()["status"]) == (status, status), answer.text
        assert len([path for path in stub.asked if path.startswith("/notes@1/_search")]) == 1  # no retries
        stub.reply = lambda path: WHOLE
        assert (await search(client)).status_code == 200


@pytest.mark.parametrize(("losses", "status"), [(1, 200), (2, 503)])
async def test_a_search_that_loses_a_node_is_repeated_once(losses: int, status: int) -> None:
    cause = {"type": "node_disconnected_exception", "reason": "[node-3][indices:data/read/search] disconnected"}
    lost = Reply({"error": {"root_cause": [cause], "type": "search_phase_execution_exception"}}, status=503)
    replies = [lost] * losses
    stub = ElasticsearchStub(reply=lambda path: replies.pop() if replies else WHOLE)
    async with stub.listening() as url, service(url) as client:
        assert (await search(client)).status_code == status
    assert len([path for path in stub.asked if path.startswith("/notes@1/_search")]) == 2


async def test_a_server_that_hangs_costs_no_more_than_the_deadline() -> None:
    async with ElasticsearchStub(reply=lambda path: Reply({}, delay_s=3)).listening() as url, service(url) as client:
        started = time.monotonic()
        assert (await search(client, 200)).status_code == 504
        assert time.monotonic() - started < 2.0  # of the three that the server would take


async def test_cancelled_searches_leave_the_connections_usable() -> None:
    stub = ElasticsearchStub(reply=lambda path: Reply(WHOLE.body, delay_s=0.03))
    async with stub.listening() as url, service(url) as client:
        answers = await asyncio.gather(*(search(client, 10 + number % 50) for number in range(150)))
        assert {answer.status_code for answer in answers} <= {200, 504, 429}
        assert (await search(client)).status_code == 200


async def test_a_service_starts_while_its_elasticsearch_is_down_and_recovers() -> None:
    stub = ElasticsearchStub(reply=lambda path: WHOLE)
    async with stub.listening() as url:
        pass  # the port is now known, and nothing listens there
    async with service(url) as client:
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["checks"][0]["ok"]) == (503, False)
        assert "cannot be reached at ELASTICSEARCH_URL" in ready.json()["checks"][0]["detail"]
        assert (await client.get("/livez")).status_code == 200
        for answer in (await search(client), await client.get("/v1/collections")):
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:problem:unavailable")
        async with stub.listening():
            assert (await client.get("/readyz")).status_code == 200
            assert (await search(client)).status_code == 200


async def test_a_server_that_is_not_elasticsearch_is_reported() -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(other, "127.0.0.1", 0)
    async with server, service(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        answer = await search(client)
        assert answer.status_code == 502
        assert "not Elasticsearch" in answer.json()["detail"]


async def test_the_backing_indices_of_a_data_stream_and_an_alias_are_not_generations() -> None:
    there = {
        ".ds-logs@1-2026.01.01-000001": {"mappings": {"_meta": META}, "aliases": {}},
        "elsewhere": {"mappings": {"_meta": META}, "aliases": {"logs@2": {}}},
        "logs@x": {"mappings": {}, "aliases": {}},
        "notes@1": {"mappings": {"_meta": META}, "aliases": {}},
    }
    replies = {"/*@*": there, "/_nodes": {"nodes": {"a": {"version": "9.0.0"}}}}
    stub = ElasticsearchStub(reply=lambda path: Reply(replies.get(path, {})))
    async with stub.listening() as url, service(url) as client:
        answer = (await client.get("/v1/collections")).json()
        assert [state["generation"] for state in answer["collections"]] == ["notes@1"]


async def test_a_ca_file_that_is_not_there_stops_the_start_with_the_settings_name(tmp_path: Path) -> None:
    app = build_app(LexicalSettings(engine="elasticsearch", elasticsearch_ca_file=tmp_path / "ca.pem"))
    with pytest.raises(ConfigurationError, match="ELASTICSEARCH_CA_FILE"):
        async with opened_client(app):
            pass


def test_settings_are_read_by_the_names_that_users_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEXICAL_ENGINE", "elasticsearch")
    monkeypatch.setenv("ELASTICSEARCH_URL", "https://search.example:9243")
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", "c2VjcmV0")
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", "")
    settings = LexicalSettings()
    assert settings.elasticsearch_url == "https://search.example:9243"
    assert settings.elasticsearch_ca_file is None
    assert "c2VjcmV0" not in repr(settings)
    assert settings.elasticsearch_api_key is not None
    assert settings.elasticsearch_api_key.get_secret_value() == "c2VjcmV0"
