"""Where keys of stores may travel, and what settings of stores refuse at the start."""

import pytest

from services.chassis.settings.configuration import BadSettings, read_settings
from services.chassis.settings.service_settings import ServiceSettings
from services.dense.settings import DenseSettings
from services.late_interaction.settings import LateInteractionSettings
from services.lexical.settings import LexicalSettings
from services.sparse.settings import SparseSettings

KEY = "bm90OmEgc2VjcmV0"
LEXICAL = (LexicalSettings, "LEXICAL_ENGINE", "elasticsearch", "ELASTICSEARCH")
DENSE = (DenseSettings, "DENSE_STORE", "qdrant", "QDRANT")
VECTORS = (DenseSettings, "DENSE_STORE", "elasticsearch", "ELASTICSEARCH")
Store = tuple[type[ServiceSettings], str, str, str]


@pytest.fixture(params=[LEXICAL, DENSE, VECTORS], ids=["texts", "qdrant", "vectors"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that is used; its settings, and what its variables begin with."""
    chosen: Store = request.param
    monkeypatch.setenv(chosen[1], chosen[2])
    return chosen


@pytest.mark.parametrize("key", ["API_KEY", "SEARCH_API_KEY"])
def test_a_key_is_not_sent_unencrypted_to_another_host(store: Store, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    settings, *_, name = store
    monkeypatch.setenv(f"{name}_URL", "http://store.example:9200")
    read_settings(settings)
    monkeypatch.setenv(f"{name}_{key}", KEY)
    with pytest.raises(BadSettings) as refused:
        read_settings(settings)
    assert str(refused.value) == (
        f"{name}_{key} would travel unencrypted to store.example: write https:// in {name}_URL; a key is sent over "
        "http:// to this machine only"
    )
    assert KEY not in repr(refused.value.__cause__)


@pytest.mark.parametrize("url", ["https://store.example", "http://127.0.0.1:1", "http://[::1]:1", "http://localhost:1"])
def test_a_key_is_sent_over_tls_or_to_this_machine(store: Store, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    settings, *_, name = store
    monkeypatch.setenv(f"{name}_URL", url)
    monkeypatch.setenv(f"{name}_API_KEY", KEY)
    monkeypatch.setenv(f"{name}_SEARCH_API_KEY", KEY)
    read_settings(settings)


@pytest.mark.parametrize("key", ["two words", "two\nlines", "ключ"])
@pytest.mark.parametrize("variable", ["API_KEY", "SEARCH_API_KEY"])
def test_a_key_that_no_header_can_carry_is_refused_by_its_variable(
    store: Store, monkeypatch: pytest.MonkeyPatch, variable: str, key: str
) -> None:
    settings, *_, name = store
    monkeypatch.setenv(f"{name}_URL", "https://store.example")
    monkeypatch.setenv(f"{name}_{variable}", key)
    with pytest.raises(BadSettings, match=f"^{name}_{variable}: ") as refused:
        read_settings(settings)
    assert key not in str(refused.value)


@pytest.mark.parametrize("engine", ["in use", "not in use"])
@pytest.mark.parametrize("url", ["https://name:hunter2@store.example", "http://hunter2@127.0.0.1:9200"])
def test_an_address_with_a_password_is_refused_without_it(
    store: Store, monkeypatch: pytest.MonkeyPatch, url: str, engine: str
) -> None:
    settings, choice, _, name = store
    if engine == "not in use":
        monkeypatch.delenv(choice)
    monkeypatch.setenv(f"{name}_URL", url)
    with pytest.raises(BadSettings) as refused:
        read_settings(settings)
    assert str(refused.value) == (
        f"{name}_URL: it holds a user name or a password: leave them out; keys have settings of their own"
    )
    assert "hunter2" not in repr(refused.value.__cause__)


def test_a_key_of_an_engine_that_is_not_used_is_not_sent_and_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings, *_, name in (LEXICAL, DENSE, VECTORS):
        monkeypatch.setenv(f"{name}_URL", "http://store.example")
        monkeypatch.setenv(f"{name}_API_KEY", KEY)
        read_settings(settings)


@pytest.mark.parametrize("settings", [SparseSettings, LateInteractionSettings])
def test_a_store_of_dense_vectors_is_refused_for_others(
    settings: type[ServiceSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = f"{settings.model_config['env_prefix']}STORE"
    monkeypatch.setenv(variable, "elasticsearch")
    with pytest.raises(BadSettings, match=f"^{variable}: .*'edge' or 'qdrant'"):
        read_settings(settings)
