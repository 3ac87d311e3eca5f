"""Checks which key and which authority the readings of processes use, over real sockets."""

import ssl
from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.machine.process_costs import process_reader
from tests.support.certificates import Certificates
from tests.support.recorded_requests import recording

NODES = {
    "nodes": {
        "a": {
            "process": {"cpu": {"total_in_millis": 2_000}},
            "jvm": {
                "timestamp": 1_000,
                "uptime_in_millis": 500,
                "mem": {"heap_committed_in_bytes": 1, "non_heap_committed_in_bytes": 2},
            },
        }
    }
}


async def test_an_elasticsearch_is_asked_with_its_own_key_and_authority_and_a_service_with_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack, engine = Certificates(tmp_path, "stack"), Certificates(tmp_path, "engine")
    contexts = []
    for made in (stack, engine):
        pair = made.issue()
        contexts.append(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        contexts[-1].load_cert_chain(pair.cert, pair.key)
    monkeypatch.setenv("GATEWAY_API_KEY", "rs_key")
    monkeypatch.setenv("STACK_CA_FILE", str(stack.ca_file))
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", str(engine.ca_file))
    (tmp_path / "key").write_text("c2VjcmV0")
    monkeypatch.setenv("ELASTICSEARCH_API_KEY_FILE", str(tmp_path / "key"))
    async with recording(context=contexts[0]) as service, recording(body=NODES, context=contexts[1]) as elasticsearch:
        processes = {"dense": service.url, "elasticsearch": elasticsearch.url, "stranger": elasticsearch.url}
        async with process_reader(processes) as read:
            readings = await read()
    assert readings["elasticsearch"].cpu_s == 2.0
    assert elasticsearch.authorizations() == {"ApiKey c2VjcmV0"}
    assert service.authorizations() == {None}
    assert "certificate verify failed" in (readings["stranger"].reason or "")


async def test_the_key_of_an_elasticsearch_is_not_sent_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_API_KEY", "c2VjcmV0")
    with pytest.raises(EvaluationError, match="ELASTICSEARCH_API_KEY"):
        async with process_reader({"elasticsearch": "http://elasticsearch:9200"}):
            pass


async def test_an_authority_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELASTICSEARCH_CA_FILE", str(tmp_path / "none.pem"))
    with pytest.raises(EvaluationError, match=r"^ELASTICSEARCH_CA_FILE: .*none\.pem"):
        async with process_reader({"elasticsearch": "https://elasticsearch:9200"}):
            pass
