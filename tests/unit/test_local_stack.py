"""What `make up` and `make demo` decide before anything starts."""

from pathlib import Path

import pytest

from deploy.local.choices import DEFAULT_PORTS, choose
from deploy.local.problem import StackProblem
from deploy.local.supervision import configuration, pid, processes


def test_without_choices_every_engine_is_embedded_and_the_ports_are_the_documented_ones(tmp_path: Path) -> None:
    choices = choose({}, tmp_path, own_ports=False)
    assert (choices.lexical, choices.dense, choices.starts_elasticsearch) == ("edge", "edge", False)
    assert choices.ports == DEFAULT_PORTS


def test_a_demo_takes_ports_of_its_own(tmp_path: Path) -> None:
    ports = choose({}, tmp_path, own_ports=True).ports
    assert len(set(ports.values())) == len(ports)
    assert not set(ports.values()) & set(DEFAULT_PORTS.values())


def test_a_demo_keeps_its_names_apart_on_servers_that_it_shares(tmp_path: Path) -> None:
    demo, up = (choose({}, tmp_path, own_ports=own).environment() for own in (True, False))
    for name in ("LEXICAL_INDEX_PREFIX", "DENSE_PREFIX"):
        assert demo[name] != up[name]


def test_dense_on_qdrant_without_its_address_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StackProblem, match=r"QDRANT_URL.*nothing was started"):
        choose({"DENSE": "qdrant"}, tmp_path, own_ports=True)


def test_engine_server_means_both_servers(tmp_path: Path) -> None:
    choices = choose({"ENGINE": "server", "QDRANT_URL": "http://127.0.0.1:6333"}, tmp_path, own_ports=False)
    assert (choices.lexical, choices.dense) == ("elasticsearch", "qdrant")
    assert choices.starts_elasticsearch
    assert choices.environment()["ELASTICSEARCH_URL"] == choices.url("elasticsearch")


def test_a_named_elasticsearch_is_used_and_none_is_started(tmp_path: Path) -> None:
    named = {"LEXICAL": "elasticsearch", "ELASTICSEARCH_URL": "http://127.0.0.1:9200"}
    choices = choose(named, tmp_path, own_ports=False)
    assert not choices.starts_elasticsearch
    assert "elasticsearch" not in dict(processes(choices))


@pytest.mark.parametrize("wrong", [{"LEXICAL": "solr"}, {"ENGINE": "cloud"}, {"GATEWAY_PORT": "http"}])
def test_a_choice_that_is_none_is_refused_by_name(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(StackProblem, match=next(iter(wrong))):
        choose(wrong, tmp_path, own_ports=False)


def test_every_process_is_supervised_and_restarted_and_no_secret_reaches_the_disk(tmp_path: Path) -> None:
    choices = choose({"QDRANT_API_KEY": "hush"}, tmp_path, own_ports=True)
    text = configuration(choices)
    assert set(dict(processes(choices))) == set(DEFAULT_PORTS)
    assert text.count("autorestart=true") == len(DEFAULT_PORTS)
    assert "hush" not in text


def test_the_pid_of_a_stranger_is_not_taken_for_the_supervisor(tmp_path: Path) -> None:
    (tmp_path / "supervisord.pid").write_text("1")
    assert pid(tmp_path) is None
