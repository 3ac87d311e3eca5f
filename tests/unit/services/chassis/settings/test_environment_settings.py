"""Settings are read from the environment, and an error names the variable."""

import pytest

from gateway.settings import GatewaySettings
from services.chassis.settings.configuration import BadSettings, read_settings
from services.chassis.settings.service_settings import ServiceSettings
from services.dense.settings import DenseSettings
from services.lexical.settings import LexicalSettings
from services.reranker.settings import RerankerSettings


@pytest.mark.parametrize(
    ("settings", "given", "told"),
    [
        (RerankerSettings, {"RERANKER_THREADS": "0"}, "RERANKER_THREADS: Input should be greater than"),
        (LexicalSettings, {"ELASTICSEARCH_URL": "nine"}, "ELASTICSEARCH_URL: it has no scheme"),
        (DenseSettings, {"DENSE_STORE": "qdrant"}, "DENSE_STORE=qdrant needs the address"),
        (
            DenseSettings,
            {"STACK_TRACE_ENDPOINT": "http://a:4318/"},
            "STACK_TRACE_ENDPOINT needs a path: http://a:4318/v1",
        ),
        (GatewaySettings, {"GATEWAY_BACKENDS": "{x"}, "GATEWAY_BACKENDS: it is not JSON"),
        (
            GatewaySettings,
            {"GATEWAY_BACKENDS": '{"a": {"family": "x", "url": "http://a"}}'},
            "GATEWAY_BACKENDS.a.family: ",
        ),
    ],
)
def test_a_fault_is_one_line_that_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, settings: type[ServiceSettings], given: dict[str, str], told: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadSettings) as fault:
        read_settings(settings)
    assert str(fault.value).startswith(told)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("settings", "name"), [(DenseSettings, "DENSE_THREADS"), (RerankerSettings, "RERANKER_THREADS")]
)
def test_a_variable_that_is_set_but_empty_counts_as_not_set(
    monkeypatch: pytest.MonkeyPatch, settings: type[ServiceSettings], name: str
) -> None:
    monkeypatch.setenv(name, "")
    assert read_settings(settings) == settings()
