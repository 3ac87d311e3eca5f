"""Checks TLS of a process's port over real sockets: who is refused, and how a certificate is replaced."""

import gc
import logging
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from services.chassis.instruments import Instruments
from services.chassis.server.connections import ConnectionBounds
from services.chassis.server.http_protocol import BoundedHttp
from services.chassis.server.serve import DrainingServer
from services.chassis.server.tls import TlsConnection, certificate_of
from services.chassis.settings.configuration import BadSettings, ConfigurationError, read_settings
from services.chassis.settings.service_settings import ServiceSettings
from services.chassis.settings.trust import caller_context, context_for
from services.lexical.settings import LexicalSettings
from tests.support.callers import callers, wait_for
from tests.support.certificates import Certificates, Pair
from tests.support.chassis_app import small_app
from tests.support.served import bounded, port_of

LIVEZ = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def with_certificate(pair: Pair) -> ServiceSettings:
    return ServiceSettings(port=0, **pair.settings)


def certificate(server: DrainingServer, context: ssl.SSLContext, name: str = "localhost") -> bytes:
    """The certificate that a new connection is shown."""
    with (
        socket.create_connection(("127.0.0.1", port_of(server)), timeout=5) as plain,
        context.wrap_socket(plain, server_hostname=name) as secured,
    ):
        found = secured.getpeercert(binary_form=True)
    assert found is not None
    return found


def count(server: DrainingServer, metric: str, **labels: str) -> float:
    return server.server_state.instruments.registry.get_sample_value(metric, labels) or 0.0


def ended(server: DrainingServer) -> float:
    return count(server, "http_connections_ended_total", reason="tls-handshake")


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"], ids=["nothing", "the beginning of a handshake"])
def test_a_connection_without_a_whole_handshake_counts_and_is_ended(made: Certificates, sent: bytes) -> None:
    settings = with_certificate(made.issue())
    with bounded(small_app(), ConnectionBounds(head_s=0.5), settings=settings) as server:
        with callers(port_of(server), 3) as silent:
            for caller in silent:
                caller.send(sent)
            wait_for(lambda: len(server.server_state.connections) == 3, within_s=2.0)
            started = time.monotonic()
            assert [caller.received() for caller in silent] == [b"", b"", b""]
            assert time.monotonic() - started < 3.0
        assert ended(server) == 3
        assert not server.server_state.connections


def test_handshakes_without_end_leave_room_for_others(made: Certificates) -> None:
    with (
        bounded(small_app(), ConnectionBounds(most=20), settings=with_certificate(made.issue())) as server,
        callers(port_of(server), 200),
        callers(port_of(server), 1, made.context) as (served,),
    ):
        served.send(LIVEZ)
        assert served.answer()[0] == 200
        wait_for(lambda: len(server.server_state.connections) <= 21, within_s=5.0)


@pytest.mark.parametrize(
    "sent",
    [
        LIVEZ,
        LIVEZ * 500,
        LIVEZ.replace(b"\r\n\r\n", b"\r\nx-deadline-ms: soon\r\n\r\n"),
        b"GET /echo HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n",
    ],
    ids=["one request", "more than are answered", "a refused one", "one refused by its head"],
)
@pytest.mark.parametrize("encrypted", [True, False], ids=["TLS", "plain"])
def test_a_closed_connection_leaves_nothing_to_the_garbage_collector(
    made: Certificates, sent: bytes, encrypted: bool
) -> None:
    # It holds bodies of megabytes, and a full collection may be minutes away. In tests it is off altogether.
    before = held(TlsConnection, BoundedHttp)
    settings = with_certificate(made.issue()) if encrypted else ServiceSettings(port=0)
    with bounded(small_app(), ConnectionBounds(), settings=settings) as server:
        for _ in range(3):
            with callers(port_of(server), 1, made.context if encrypted else None) as (caller,):
                caller.send(sent)
                status = caller.answer()[0]
                assert status in (200, 400, 421)
                assert status != 200 or len(held(TlsConnection, BoundedHttp)) > len(before)
        wait_for(lambda: not server.server_state.connections, within_s=5.0)
        wait_for(lambda: len(held(TlsConnection, BoundedHttp)) <= len(before), within_s=2.0)


def held(*kinds: type) -> list[object]:
    """Returns what there is of these types, used or not. While the collector is off, all of it is young."""
    return [value for value in gc.get_objects(generation=0) if type(value) in kinds]


def test_plain_http_gets_no_answer_from_a_port_with_tls(made: Certificates) -> None:
    with bounded(small_app(), ConnectionBounds(), settings=with_certificate(made.issue())) as server:
        with callers(port_of(server), 1) as (caller,):
            assert b"HTTP/1.1" not in caller.send(LIVEZ).received()
        wait_for(lambda: ended(server) == 1, within_s=2.0)


def test_tls_before_1_2_is_refused(made: Certificates) -> None:
    old = made.context
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with bounded(small_app(), ConnectionBounds(), settings=with_certificate(made.issue())) as server:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            certificate(server, old)
        new = made.context
        new.maximum_version = ssl.TLSVersion.TLSv1_2
        assert certificate(server, new)


def test_a_caller_refuses_another_authority_another_name_and_an_expired_certificate(
    made: Certificates, tmp_path: Path
) -> None:
    stranger = Certificates(tmp_path, "stranger")
    trusting = caller_context(made.ca_file)
    with bounded(small_app(), ConnectionBounds(), settings=with_certificate(made.issue("other.example"))) as server:
        assert certificate(server, trusting, "other.example")
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            certificate(server, trusting)
        with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
            certificate(server, caller_context(stranger.ca_file), "other.example")
        for nobody in (caller_context(None), context_for("https://other.example", None), context_for("http://a", None)):
            with pytest.raises(ssl.SSLCertVerificationError):
                certificate(server, nobody, "other.example")
        assert certificate(server, context_for("http://a", made.ca_file), "other.example")
    with (
        bounded(small_app(), ConnectionBounds(), settings=with_certificate(made.issue_expired())) as server,
        pytest.raises(ssl.SSLCertVerificationError, match="expired"),
    ):
        certificate(server, trusting)


def test_a_replaced_certificate_is_shown_to_new_connections_and_the_old_ones_go_on(made: Certificates) -> None:
    pair, other = made.issue(), made.issue()
    with bounded(small_app(), ConnectionBounds(), settings=with_certificate(pair)) as server:
        before = certificate(server, made.context)
        with callers(port_of(server), 1, made.context) as (early,):
            pair.replaced_by(other)
            wait_for(lambda: certificate(server, made.context) != before, within_s=5.0)
            assert early.send(LIVEZ).answer()[0] == 200
        assert certificate(server, made.context) == ssl.PEM_cert_to_DER_cert(other.cert.read_text())
        assert count(server, "tls_certificate_loads_total", outcome="loaded") >= 1


def test_a_broken_certificate_is_logged_once_and_the_one_before_stays(
    made: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    pair = made.issue()
    whole = pair.cert.read_text()
    with bounded(small_app(), ConnectionBounds(), settings=with_certificate(pair)) as server:
        before = certificate(server, made.context)
        with caplog.at_level(logging.ERROR):
            pair.cert.write_text(whole[:100])
            wait_for(lambda: count(server, "tls_certificate_loads_total", outcome="refused") == 1, within_s=5.0)
            time.sleep(0.5)
        assert [one.levelname for one in caplog.records if "certificate has changed" in one.message] == ["ERROR"]
        assert certificate(server, made.context) == before
        pair.cert.write_text(whole)
        wait_for(lambda: count(server, "tls_certificate_loads_total", outcome="loaded") == 1, within_s=5.0)
        assert certificate(server, made.context) == before


def test_a_pair_that_cannot_be_used_is_one_sentence_at_the_start(made: Certificates, tmp_path: Path) -> None:
    one, other = made.issue(), made.issue()
    locked = tmp_path / "locked.key"
    encrypt: list[str | Path] = ["openssl", "ec", "-in", one.key, "-out", locked, "-aes256", "-passout", "pass:secret"]
    subprocess.run(encrypt, check=True, capture_output=True)
    told = {}
    for name, pair in {
        "absent": Pair(tmp_path / "none.pem", one.key),
        "mismatch": Pair(one.cert, other.key),
        "encrypted": Pair(one.cert, locked),
        "no PEM": Pair(one.key, one.key),
    }.items():
        with pytest.raises(ConfigurationError) as refused:
            certificate_of(LexicalSettings(**pair.settings), Instruments())
        told[name] = str(refused.value)
    assert told["absent"] == f"LEXICAL_TLS_CERT_FILE: {tmp_path}/none.pem: No such file or directory."
    assert "(key values mismatch)" in told["mismatch"]
    for name in ("mismatch", "encrypted", "no PEM"):
        assert told[name].startswith("LEXICAL_TLS_CERT_FILE and LEXICAL_TLS_KEY_FILE: ")
        assert told[name].count("\n") == 0


@pytest.mark.parametrize(("one", "other"), [("CERT", "KEY"), ("KEY", "CERT")])
def test_half_a_pair_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, one: str, other: str) -> None:
    monkeypatch.setenv(f"LEXICAL_TLS_{one}_FILE", "a.pem")
    with pytest.raises(BadSettings, match=f"^LEXICAL_TLS_{one}_FILE .*LEXICAL_TLS_{other}_FILE"):
        read_settings(LexicalSettings)


def test_an_authority_that_cannot_be_read_is_named(made: Certificates, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^STACK_CA_FILE: .*none\.pem"):
        caller_context(tmp_path / "none.pem")
    with pytest.raises(ConfigurationError, match=r"^STACK_CA_FILE: "):
        caller_context(made.issue().key)
