"""Checks which texts are addresses of servers, and that every setting that is one refuses the others by its name."""

from pathlib import Path

import pytest
from pydantic_settings import BaseSettings
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.settings import EvaluatorSettings
from gateway.settings import GatewaySettings
from services.chassis.settings.addresses import server_address
from services.chassis.settings.configuration import BadSettings, read_settings
from services.dense.settings import DenseSettings
from services.lexical.settings import LexicalSettings


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("HTTPS://search.example/", "https://search.example"),
        ("http://my_gateway.svc.:80/behind/a-proxy/", "http://my_gateway.svc.:80/behind/a-proxy"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("https://bücher.example", "https://bücher.example"),
    ],
)
def test_an_address_is_read_without_the_slash_at_its_end(given: str, read: str) -> None:
    assert server_address(given) == read


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("127.0.0.1:8000", "write http://127.0.0.1:8000,"),
        ("//gateway:8000", "write http://gateway:8000,"),
        ("", "no host"),
        ("http://", "no host"),
        ("ftp://gateway", "scheme"),
        ("http://gateway:65536", "port"),
        ("http://gateway:eight", "port"),
        ("http://gateway//v1", "path"),
        ("http://gateway?key=hunter2", "query"),
        ("http://gateway/#top", "fragment"),
        ("http://a:hunter2@gateway", "password"),
        (" http://gateway", "white space"),
        ("http://gateway\n", "white space"),
        ("http://999.0.0.1", "not a host"),
        ("http://*", "not a host"),
    ],
)
def test_what_is_no_address_is_refused_with_what_to_write(given: str, fault: str) -> None:
    with pytest.raises(ValueError, match=r"write |leave them out") as refused:
        server_address(given)
    assert fault in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "variable", "template"),
    [
        (EvaluatorSettings, "GATEWAY_URL", "{}"),
        (GatewaySettings, "GATEWAY_BACKENDS", '{{"lexical": {{"family": "lexical", "url": "{}"}}}}'),
        (LexicalSettings, "ELASTICSEARCH_URL", "{}"),
        (DenseSettings, "QDRANT_URL", "{}"),
    ],
)
@pytest.mark.parametrize("given", ["127.0.0.1:9", "http://h:99999", "http://h?a=b", "https://"])
def test_a_setting_that_is_no_address_is_named(
    monkeypatch: pytest.MonkeyPatch, settings: type[BaseSettings], variable: str, template: str, given: str
) -> None:
    monkeypatch.setenv(variable, template.format(given))
    with pytest.raises(BadSettings, match=rf"^{variable}\S*: .*write "):
        read_settings(settings)


@pytest.mark.parametrize(
    "words",
    [["rank"], ["ingest", "demo", "--gateway", "127.0.0.1:8000"], ["run", "demo", "--processes", "dense=h:8002"]],
)
def test_a_command_refuses_a_wrong_address_before_it_waits(words: list[str], tmp_path: Path) -> None:
    wrong = {"EVALUATOR_RUNS": str(tmp_path)} | ({} if len(words) > 1 else {"GATEWAY_URL": "127.0.0.1:8000"})
    done = CliRunner().invoke(app, words, env=wrong)
    assert done.exit_code == 2, done.output
    assert "no scheme" in " ".join(done.output.split())
