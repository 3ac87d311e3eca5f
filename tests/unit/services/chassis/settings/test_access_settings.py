from pathlib import Path

import pytest

from gateway.settings import GatewaySettings
from services.chassis.settings.addresses import is_loopback, may_carry_secret
from services.chassis.settings.configuration import BadSettings, read_settings
from services.lexical.settings import LexicalSettings

TOKEN = "a-token-of-more-than-24-characters"


def test_a_secret_travels_over_tls_to_loopback_or_to_a_trusted_host_only() -> None:
    assert may_carry_secret("https://search.example")
    assert may_carry_secret("http://[::1]:9200")
    assert may_carry_secret("http://lexical:8001", ["Lexical"])
    assert not may_carry_secret("http://lexical:8001")
    assert not may_carry_secret("http://localhost@search.example/")


def test_a_process_that_others_reach_does_not_start_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_HOST", "0.0.0.0")
    with pytest.raises(BadSettings, match=r"GATEWAY_HOST=0\.0\.0\.0 .* GATEWAY_KEYS_FILE .* GATEWAY_AUTH=off"):
        read_settings(GatewaySettings)


def test_a_service_that_others_reach_names_the_token_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEXICAL_HOST", "10.0.0.7")
    with pytest.raises(BadSettings, match=r"^LEXICAL_HOST=10\.0\.0\.7 .* STACK_TOKEN.* LEXICAL_AUTH=off"):
        read_settings(LexicalSettings)


@pytest.mark.parametrize("host", ["LOCALHOST.", "127.8.8.8", "[::1]"])
def test_a_loopback_host_is_known(host: str) -> None:
    assert is_loopback(host)
    assert not any(map(is_loopback, ["0.0.0.0", "10.0.0.7", "127.0.0.1.example", ""]))
    assert not GatewaySettings(host="127.0.0.1").authenticates
    assert GatewaySettings(keys_file=Path("keys.json")).authenticates


def test_auth_is_off_in_words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_HOST", "0.0.0.0")
    monkeypatch.setenv("GATEWAY_AUTH", "off")
    assert not read_settings(GatewaySettings).authenticates


def test_a_token_turns_auth_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_TOKEN", f"{TOKEN} {TOKEN}-before")
    settings = read_settings(LexicalSettings)
    assert settings.authenticates
    assert settings.accepted_tokens == (TOKEN, f"{TOKEN}-before")
    assert TOKEN not in repr(settings)


def test_a_weak_token_is_refused_and_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_TOKEN", f"{TOKEN} hunter2")
    with pytest.raises(BadSettings, match=r"STACK_TOKEN: .*24") as refused:
        read_settings(LexicalSettings)
    assert "hunter2" not in str(refused.value)


def test_a_secret_may_be_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    (tmp_path / "key").write_text("c2VjcmV0\n")
    monkeypatch.setenv("STACK_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("ELASTICSEARCH_API_KEY_FILE", str(tmp_path / "key"))
    settings = read_settings(LexicalSettings)
    assert settings.accepted_tokens == (TOKEN,)
    assert settings.elasticsearch_api_key is not None
    assert settings.elasticsearch_api_key.get_secret_value() == "c2VjcmV0"


@pytest.mark.parametrize(
    ("content", "said"), [(None, "No such file"), (b"\n", "is empty"), (b"\xff", "UTF-8"), (b"a" * 20_000, "16,384")]
)
def test_a_file_without_a_usable_secret_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("STACK_TOKEN_FILE", str(file))
    with pytest.raises(BadSettings, match=f"^STACK_TOKEN_FILE: .*{said}"):
        read_settings(LexicalSettings)


def test_a_secret_in_two_places_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    monkeypatch.setenv("STACK_TOKEN", TOKEN)
    monkeypatch.setenv("STACK_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(BadSettings, match="both set"):
        read_settings(LexicalSettings)
