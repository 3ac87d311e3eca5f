"""The services that a stack starts on request: SYSTEMS, and the pipelines of a demo."""

import json
from pathlib import Path

import pytest

from deploy.local.checks import SETTINGS, expect_startable, unknown_settings
from deploy.local.choices import choose
from deploy.local.demo_plan import demo_experiments
from deploy.local.ports import DEFAULT_PORTS, record_ports
from deploy.local.problem import StackProblem
from deploy.local.stacks import requested_stack
from deploy.local.supervision import PROCFILE, processes
from deploy.local.systems import SYSTEMS, bring_models, demo_systems
from evaluator.machine.process_costs import parse_processes
from services.chassis.settings.configuration import read_settings
from services.dense.settings import SERVICES, BgeSettings
from services.late_interaction.settings import LateInteractionSettings
from services.sparse.settings import SparseSettings


def test_systems_start_beside_the_usual_services_with_what_they_need(tmp_path: Path) -> None:
    choices = choose({"SYSTEMS": "dense_e5, dense_bge, late_interaction, sparse"}, tmp_path, own_ports=False)
    assert choices.ports == DEFAULT_PORTS
    told = choices.environment()
    backends = json.loads(told["GATEWAY_BACKENDS"])
    assert backends["sparse"] == {"family": "sparse", "url": "http://127.0.0.1:8004"}
    assert backends["late_interaction"] == {"family": "late_interaction", "url": "http://127.0.0.1:8005"}
    assert backends["dense_bge"] == {"family": "dense", "url": "http://127.0.0.1:8006"}
    assert backends["dense_e5"] == {"family": "dense", "url": "http://127.0.0.1:8007"}
    assert (told["DENSE_BGE_DIRECTORY"], told["DENSE_BGE_PREFIX"]) == (str(tmp_path / "dense_bge"), "dense_bge.")
    assert (told["SPARSE_STORE"], told["SPARSE_DIRECTORY"]) == ("edge", str(tmp_path / "sparse"))
    assert told["LATE_INTERACTION_PREFIX"] == "late_interaction."
    assert set(SYSTEMS) <= parse_processes(choices.processes({})).keys()


def test_every_system_accepts_the_prefix_of_the_longest_stack_name(tmp_path: Path) -> None:
    name = "a" * 16
    assert requested_stack({"STACK": name}).name == name
    told = choose({"SYSTEMS": ",".join(SYSTEMS)}, tmp_path, own_ports=False, name=name).environment()
    assert SparseSettings(prefix=told["SPARSE_PREFIX"]).prefix == f"{name}-sparse."
    assert LateInteractionSettings(prefix=told["LATE_INTERACTION_PREFIX"]).prefix == f"{name}-late_interaction."
    assert BgeSettings(prefix=told["DENSE_BGE_PREFIX"]).prefix == f"{name}-dense_bge."


def test_every_process_of_a_stack_has_its_documented_port_in_its_settings_and_a_command() -> None:
    assert {name: settings.model_fields["port"].default for name, settings in SETTINGS.items()} == DEFAULT_PORTS
    assert {line.partition(":")[0] for line in PROCFILE.read_text().splitlines()} == DEFAULT_PORTS.keys()


def test_services_of_one_family_share_no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DENSE_MODEL", "first")
    monkeypatch.setenv("DENSE_BGE_MODEL", "second")
    models = [read_settings(settings).model for settings in SERVICES.values()]
    assert models == ["first", "second", "e5-small-v2"]
    assert unknown_settings({"DENSE_BGE_THREADS": "1", "DENSE_BGE_THREAD": "1"}) == ["DENSE_BGE_THREAD"]


def test_systems_that_are_none_are_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(StackProblem, match=r"SYSTEMS=sparse,colbert: colbert is none .* sparse, late_interaction"):
        choose({"SYSTEMS": "sparse,colbert"}, tmp_path, own_ports=False)


def test_engine_server_and_the_services_own_setting_choose_the_store_of_a_system(tmp_path: Path) -> None:
    given = {"SYSTEMS": "sparse", "QDRANT_URL": "http://127.0.0.1:6333"}
    servers = choose({**given, "ENGINE": "server"}, tmp_path, own_ports=False)
    assert servers.stores == {"dense": "qdrant", "sparse": "qdrant", "late_interaction": "qdrant"}
    assert choose({**given, "SPARSE_STORE": "qdrant"}, tmp_path, own_ports=False).stores["dense"] == "edge"
    with pytest.raises(StackProblem, match="SPARSE_STORE=qdrant needs a Qdrant server: set QDRANT_URL"):
        choose({"SYSTEMS": "sparse", "SPARSE_STORE": "qdrant"}, tmp_path, own_ports=False)


def test_a_system_that_is_elsewhere_is_used_and_none_is_started(tmp_path: Path) -> None:
    given = {"GATEWAY_BACKENDS": json.dumps({"sparse": {"family": "sparse", "url": "http://127.0.0.1:8004"}})}
    for systems in ("", "late_interaction"):
        choices = choose({**given, "SYSTEMS": systems}, tmp_path, own_ports=False)
        assert "sparse" not in choices.ports
        assert "sparse" in json.loads(choices.environment()["GATEWAY_BACKENDS"])
    # At the address of the stack's own, it is the stack's own.
    assert "sparse" in choose({**given, "SYSTEMS": "sparse"}, tmp_path, own_ports=False).ports


@pytest.mark.parametrize(
    ("given", "started"),
    [
        ({}, ("late_interaction",)),
        ({"PIPELINES": "bm25,hybrid"}, ()),
        ({"PIPELINES": "bm25,splade"}, ("sparse",)),
        ({"PIPELINES": "dense,dense-bge,dense-e5"}, ("dense_bge", "dense_e5")),
        ({"PIPELINES": "hybrid-colbert, bm25-splade"}, ("sparse", "late_interaction")),
        ({"PIPELINES": "bm25", "SYSTEMS": "sparse"}, ("sparse",)),
        ({"SYSTEMS": "paper"}, ("sparse", "late_interaction", "dense_bge", "dense_e5")),
    ],
)
def test_a_demo_starts_what_its_pipelines_need(given: dict[str, str], started: tuple[str, ...]) -> None:
    assert demo_systems(given, demo_experiments(given)[0].pipelines) == started


@pytest.mark.parametrize(
    ("service", "without_model"),
    [("sparse", "hashing"), ("dense", "hashing"), ("dense", "tei"), ("reranker", "overlap"), ("reranker", "cohere")],
)
def test_a_service_that_runs_no_model_needs_none_and_another_one_gets_it(
    service: str, without_model: str, tmp_path: Path
) -> None:
    name, runs_on = service.upper(), "SCORER" if service == "reranker" else "ENCODER"
    given = {f"{name}_MODELS": str(tmp_path), f"{name}_{runs_on}": without_model}
    if without_model in ("tei", "cohere"):
        given |= {f"{name}_API_URL": "https://api.example", f"{name}_MODEL": "theirs"}
    expect_startable(given, [service])
    bring_models(given, ("gateway", service))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StackProblem, match=f"The model of {service} could not be fetched"):
        bring_models({**given, f"{name}_{runs_on}": "onnx", f"{name}_MODEL": "unheard-of"}, (service,))


@pytest.mark.parametrize("service", ["sparse", "late_interaction"])
def test_a_table_of_idf_that_is_missing_is_told_before_anything_starts(service: str, tmp_path: Path) -> None:
    variable = f"{service.upper()}_IDF"
    given = {f"{service.upper()}_MODELS": str(tmp_path), variable: str(tmp_path / "idf.json")}
    with pytest.raises(StackProblem, match=rf"{variable}=.*workshop\.idf CORPUS --model"):
        expect_startable(given, [service])
    (tmp_path / "idf.json").write_text("{}")
    with pytest.raises(StackProblem) as told:
        expect_startable(given, [service])
    assert variable not in str(told.value)


def test_a_named_stack_that_starts_more_keeps_its_ports_and_takes_none_of_others(tmp_path: Path) -> None:
    second = tmp_path / "up-second"
    second.mkdir()
    before = choose({}, second, own_ports=False, name="second").ports
    record_ports(second, before)
    more = choose({"SYSTEMS": "sparse"}, second, own_ports=False, name="second").ports
    assert more.items() > before.items()
    assert more["sparse"] not in DEFAULT_PORTS.values()


def test_dense_alone_on_elasticsearch_starts_one_and_is_told_its_address(tmp_path: Path) -> None:
    choices = choose({"DENSE": "elasticsearch"}, tmp_path, own_ports=False)
    assert (choices.lexical, choices.on_elasticsearch) == ("edge", {"dense"})
    assert choices.environment()["DENSE_STORE"] == "elasticsearch"
    assert choices.environment()["ELASTICSEARCH_URL"] == choices.url("elasticsearch")
    assert "elasticsearch" in dict(processes(choices))
    named = {"DENSE": "elasticsearch", "ELASTICSEARCH_URL": "http://127.0.0.1:9200"}
    used = choose(named, tmp_path, own_ports=False)
    assert not used.starts_elasticsearch
    assert used.outside_urls(named) == ("http://127.0.0.1:9200",)
