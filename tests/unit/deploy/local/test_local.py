"""What `make up` and `make demo` decide before anything starts."""

import json
import os
import shlex
import socket
from pathlib import Path

import pytest

from deploy.local.__main__ import addresses, notices, run_since
from deploy.local.checks import SETTINGS, expect_startable, unknown_settings
from deploy.local.choices import ROOT, choose
from deploy.local.ports import DEFAULT_PORTS, record_ports
from deploy.local.problem import StackProblem
from deploy.local.stacks import Stack, expect_same_settings, requested_stack, write_digests
from deploy.local.supervision import configuration, failed_start, pid, processes
from deploy.local.systems import SYSTEMS, USUAL
from evaluator.errors import command_line
from evaluator.experiments.experiment import read_experiment
from evaluator.machine.process_costs import parse_processes
from evaluator.runs.run_folder import RunFolder
from tests.support.planted_secrets import PlantedSecrets

USUAL_PORTS = {process: port for process, port in DEFAULT_PORTS.items() if process not in SYSTEMS or process == USUAL}
BESIDE = {"family": "reranker", "url": "http://127.0.0.1:8013"}


def backends(environment: dict[str, str], directory: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(
        choose(environment, directory, own_ports=False).environment()["GATEWAY_BACKENDS"]
    )
    return found


def test_without_choices_every_engine_is_embedded_and_the_ports_are_the_documented_ones(tmp_path: Path) -> None:
    choices = choose({}, tmp_path, own_ports=False)
    assert (choices.lexical, choices.stores, choices.starts_elasticsearch) == (
        "edge",
        {"dense": "edge", "late_interaction": "edge"},
        False,
    )
    assert choices.ports == USUAL_PORTS


def test_a_demo_takes_ports_and_names_on_servers_of_its_own(tmp_path: Path) -> None:
    demo, up = choose({}, tmp_path, own_ports=True), choose({}, tmp_path, own_ports=False)
    assert len(set(demo.ports.values())) == len(demo.ports)
    assert not set(demo.ports.values()) & set(DEFAULT_PORTS.values())
    for name in ("LEXICAL_INDEX_PREFIX", "DENSE_PREFIX"):
        assert demo.environment()[name] != up.environment()[name]


def test_dense_on_qdrant_without_its_address_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(StackProblem, match="QDRANT_URL"):
        choose({"DENSE": "qdrant"}, tmp_path, own_ports=True)


def test_engine_server_means_both_servers(tmp_path: Path) -> None:
    choices = choose({"ENGINE": "server", "QDRANT_URL": "http://127.0.0.1:6333"}, tmp_path, own_ports=False)
    assert (choices.lexical, choices.stores["dense"]) == ("elasticsearch", "qdrant")
    assert choices.starts_elasticsearch
    assert choices.environment()["ELASTICSEARCH_URL"] == choices.url("elasticsearch")


@pytest.mark.parametrize("wrong", [{"LEXICAL": "solr"}, {"ENGINE": "cloud"}, {"GATEWAY_PORT": "http"}])
def test_a_choice_that_is_none_is_refused_by_name(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(StackProblem, match=next(iter(wrong))):
        choose(wrong, tmp_path, own_ports=False)


def test_every_process_is_supervised_and_restarted_and_no_secret_reaches_the_disk(tmp_path: Path) -> None:
    choices = choose({"QDRANT_API_KEY": "hush", "SYSTEMS": ",".join(SYSTEMS)}, tmp_path, own_ports=True)
    text = configuration(choices)
    assert set(dict(processes(choices))) == set(DEFAULT_PORTS)
    assert text.count("autorestart=true") == len(DEFAULT_PORTS)
    assert "hush" not in text


def test_no_secret_setting_reaches_a_file_or_a_message_of_a_stack(tmp_path: Path) -> None:
    planted = PlantedSecrets.everywhere()
    secrets = {name: secret for settings in SETTINGS.values() for name, secret in planted.environment(settings).items()}
    environment = {**secrets, "DENSE": "qdrant", "QDRANT_URL": "https://qdrant.example"}
    choices = choose(environment, tmp_path, own_ports=True)
    write_digests(choices, environment)
    (tmp_path / "supervisord.conf").write_text(configuration(choices))
    said = [*notices(choices), *addresses(choices, environment), str(list(processes(choices))), repr(choices)]
    assert planted.found_in("\n".join(said).encode()) == set()
    assert planted.found_below(tmp_path) == {}
    digested = json.loads((tmp_path / "chosen.json").read_text())
    assert "QDRANT_URL" in digested
    assert not digested.keys() & secrets.keys()


def test_the_pid_of_a_stranger_is_not_taken_for_the_supervisor(tmp_path: Path) -> None:
    (tmp_path / "supervisord.pid").write_text("1")
    assert pid(tmp_path) is None


def test_backends_of_the_environment_stand_beside_the_stacks_own(tmp_path: Path) -> None:
    given = {"GATEWAY_BACKENDS": json.dumps({"reranker-small": BESIDE})}
    merged = backends(given, tmp_path)
    assert list(merged) == ["lexical", "dense", "late_interaction", "reranker", "reranker-small"]
    assert merged["reranker-small"] == BESIDE
    assert merged["lexical"]["url"] == "http://127.0.0.1:8001"


def test_a_backend_named_as_one_of_the_stacks_takes_its_place_and_none_is_started(tmp_path: Path) -> None:
    given = {"GATEWAY_BACKENDS": json.dumps({"lexical": {"family": "lexical", "url": "http://search.internal"}})}
    choices = choose({**given, "LEXICAL": "elasticsearch"}, tmp_path, own_ports=False)
    assert backends(given, tmp_path)["lexical"]["url"] == "http://search.internal"
    assert set(dict(processes(choices))) == {"gateway", "dense", "late_interaction", "reranker", "evaluator"}
    assert list(notices(choices)) == [
        "GATEWAY_BACKENDS: lexical (lexical) is at http://search.internal, so no lexical service is started here."
    ]


def test_the_line_of_the_example_with_one_more_adds_that_one_alone(tmp_path: Path) -> None:
    (line,) = [line for line in Path(".env.example").read_text().splitlines() if "# GATEWAY_BACKENDS=" in line]
    listed = json.loads(line.partition("=")[2]) | {"reranker-small": BESIDE}
    choices = choose({"GATEWAY_BACKENDS": json.dumps(listed)}, tmp_path, own_ports=False)
    assert list(choices.backends) == ["reranker-small"]
    assert set(choices.ports) == set(USUAL_PORTS)


@pytest.mark.parametrize("given", ["{", '{"x": {"family": "graph", "url": "http://x"}}'])
def test_backends_that_are_none_are_refused_by_the_variables_name(tmp_path: Path, given: str) -> None:
    with pytest.raises(StackProblem, match="GATEWAY_BACKENDS"):
        choose({"GATEWAY_BACKENDS": given}, tmp_path, own_ports=False)


@pytest.mark.parametrize(
    ("given", "served"),
    [
        ({}, None),
        ({"DATASET": "scifact"}, None),  # a name of the catalogue, which the service knows too
        ({"DATASET": "my-docs"}, None),  # no folder here: loading it says so
        ({"DATASET": "docs"}, [".datasets", "../shared/datasets", "evaluator/collections", "docs"]),
        ({"DATASET": "docs", "EVALUATOR_DATASETS": '["/datasets"]'}, ["/datasets", "docs"]),
    ],
)
def test_the_service_is_told_the_folder_of_the_dataset_that_a_stack_is_started_with(
    tmp_path: Path, given: dict[str, str], served: list[str] | None
) -> None:
    for own_ports in (False, True):
        told = choose(given, tmp_path, own_ports=own_ports).environment().get("EVALUATOR_DATASETS")
        assert (None if told is None else json.loads(told)) == served


def test_folders_of_datasets_that_are_no_list_are_refused_by_the_variables_name(tmp_path: Path) -> None:
    with pytest.raises(StackProblem, match=r"EVALUATOR_DATASETS .*/datasets"):
        choose({"DATASET": "docs", "EVALUATOR_DATASETS": "/datasets"}, tmp_path, own_ports=False)


def test_a_stack_says_which_settings_it_decides_by_itself(tmp_path: Path) -> None:
    given = {"LEXICAL_DIRECTORY": "a", "GATEWAY_PORT": "9", "GATEWAY_URL": "http://a", "LEXICAL_METRICS_PORT": "9101"}
    for own_ports, unused in ((True, ", LEXICAL_METRICS_PORT, GATEWAY_PORT."), (False, ", LEXICAL_METRICS_PORT.")):
        choices = choose(given, tmp_path, own_ports=own_ports)
        environment = choices.environment()
        assert (environment["GATEWAY_URL"], environment["LEXICAL_METRICS_PORT"]) == (choices.url("gateway"), "")
        assert environment["LEXICAL_DIRECTORY"] == str(tmp_path / "lexical")
        (notice,) = notices(choices)
        assert notice.endswith(f"not used: GATEWAY_URL, LEXICAL_DIRECTORY{unused}")


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        ({"LEXICAL_ENGINE": "elasticsearch"}, ("elasticsearch", "edge")),
        ({"ENGINE": "server", "LEXICAL_ENGINE": "edge"}, ("edge", "qdrant")),
    ],
)
def test_an_engine_may_be_chosen_by_the_services_own_setting(
    tmp_path: Path, given: dict[str, str], chosen: tuple[str, str]
) -> None:
    choices = choose({"QDRANT_URL": "http://127.0.0.1:6333", **given}, tmp_path, own_ports=False)
    assert (choices.lexical, choices.stores["dense"]) == chosen


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"LEXICAL": "edge", "LEXICAL_ENGINE": "elasticsearch"}, "LEXICAL=edge and LEXICAL_ENGINE=elasticsearch"),
        ({"QDRANT_URL": "http://h:633333"}, r"QDRANT_URL: .* port"),
    ],
)
def test_settings_that_contradict_the_stack_are_refused_with_what_to_use(
    tmp_path: Path, given: dict[str, str], said: str
) -> None:
    with pytest.raises(StackProblem, match=said):
        choose(given, tmp_path, own_ports=False)


def test_a_named_stack_has_ports_names_and_a_directory_of_its_own_and_keeps_them(tmp_path: Path) -> None:
    second, third = tmp_path / "up-second", tmp_path / "up-third"
    second.mkdir()
    chosen = choose({}, second, own_ports=False, name="second")
    assert not set(chosen.ports.values()) & set(DEFAULT_PORTS.values())
    assert chosen.environment()["LEXICAL_INDEX_PREFIX"] == "second-"
    assert chosen.environment()["DENSE_PREFIX"] == "second-dense."
    assert choose({"GATEWAY_PORT": "9123"}, second, own_ports=False, name="second").ports["gateway"] == 9123
    record_ports(second, chosen.ports)
    with socket.socket() as meanwhile:
        meanwhile.bind(("127.0.0.1", chosen.ports["gateway"]))
        meanwhile.listen()
        assert choose({}, second, own_ports=False, name="second").ports == chosen.ports
    other = choose({}, third, own_ports=False, name="third").ports
    assert not set(other.values()) & set(chosen.ports.values())


def test_a_stack_is_named_by_stack(tmp_path: Path) -> None:
    assert requested_stack({}).command("down") == "make down"
    assert requested_stack({"STACK": "second"}).command("down") == "make down STACK=second"
    with pytest.raises(StackProblem, match=r"STACK=\.\./x"):
        requested_stack({"STACK": "../x"})


def test_every_fault_of_the_settings_is_told_by_its_name_before_anything_starts(tmp_path: Path) -> None:
    given = {"GATEWAY_CONNECT_S": "soon", "RERANKER_THREADS": "0", "DENSE_MODEL": "gpt", "RERANKER_MODELS": "nowhere"}
    before = dict(os.environ)
    with pytest.raises(StackProblem) as told:
        expect_startable(given | {"RERANKER_THREADS": ""}, USUAL_PORTS)
    lines = str(told.value).splitlines()
    assert lines[0] == "Nothing was started, because:"
    assert [line.split()[0] for line in lines[1:]] == [
        "GATEWAY_CONNECT_S:",
        "DENSE_MODEL=gpt:",
        "RERANKER_MODEL=minilm-l6-ce-v4:",
    ]
    assert "`make models MODELS=minilm-l6-ce-v4` brings it" in lines[3]
    with pytest.raises(StackProblem, match="RERANKER_THREADS: "):
        expect_startable(given, USUAL_PORTS)
    assert dict(os.environ) == before


def test_a_fault_in_a_pipeline_file_is_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine\nstages: [{kind: retrieve, backend: lexcial}]")
    with pytest.raises(StackProblem, match=r"mine\.yaml: .*'lexcial'"):
        expect_startable({"GATEWAY_PIPELINES": str(tmp_path)}, ["gateway"])


def test_a_variable_that_looks_like_a_setting_and_is_none_is_named() -> None:
    assert unknown_settings(
        {"RERANKER_MODLE": "x", "RERANKER_MODEL": "x", "PATH": "x", "GATEWAY_PUBLISHED_PORT": "1"}
    ) == ["RERANKER_MODLE"]


def test_other_settings_than_those_of_the_running_stack_are_refused_by_name(tmp_path: Path) -> None:
    first = {"RERANKER_MODEL": "one", "QDRANT_API_KEY": "hush"}
    choices = choose(first, tmp_path, own_ports=False)
    write_digests(choices, first)
    expect_same_settings(choices, first, Stack(""))
    written = (tmp_path / "chosen.json").read_text()
    assert "one" not in json.loads(written).values()
    assert "QDRANT_API_KEY" not in written
    now = {"RERANKER_MODEL": "two", "GATEWAY_PORT": "8100"}
    with pytest.raises(StackProblem, match=r"GATEWAY_PORT.*RERANKER_MODEL\): .*`make down`"):
        expect_same_settings(choose(now, tmp_path, own_ports=False), now, Stack(""))


def test_figures_of_a_demo_go_to_its_own_run_and_to_none_when_it_failed_before_it_had_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVALUATOR_RUNS", str(tmp_path))
    experiment = read_experiment(ROOT / "evaluator" / "experiments" / "demo.yaml")
    RunFolder.create(tmp_path, experiment).point_latest_here()
    earlier = RunFolder.every(tmp_path)
    RunFolder.create(tmp_path, experiment.model_copy(update={"name": "other"}))
    assert run_since(earlier) is None
    own = RunFolder.create(tmp_path, experiment)
    assert run_since(earlier) == own.path
    RunFolder.create(tmp_path, experiment)
    assert run_since(earlier) is None


@pytest.mark.parametrize(
    ("log", "process"),
    [
        ("INFO spawned: 'gateway' with pid 7\nWARN exited: gateway (exit status 1; not expected)\n", "gateway"),
        ("WARN exited: dense (terminated by SIGKILL; not expected)\nINFO spawned: 'dense' with pid 9\n", None),
        ("INFO gave up: dense entered FATAL state, too many start retries too quickly\n", "dense"),
        ("INFO success: lexical entered RUNNING state, process has stayed up for > than 2 seconds\n", None),
    ],
)
def test_the_first_exit_with_a_fault_ends_the_start_and_a_kill_does_not(
    tmp_path: Path, log: str, process: str | None
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "supervisord.log").write_text(log)
    assert failed_start(tmp_path) == process


def test_the_processes_of_a_stack_are_told_to_the_evaluator_with_their_servers(tmp_path: Path) -> None:
    own = {"gateway", "lexical", "dense", "late_interaction", "reranker"}
    assert parse_processes(choose({}, tmp_path, own_ports=True).processes({})).keys() == own
    servers = {"ENGINE": "server", "QDRANT_URL": "http://q:6333", "ELASTICSEARCH_URL": "http://e:9200"}
    told = parse_processes(choose(servers, tmp_path, own_ports=True).processes(servers))
    assert (told["elasticsearch"], told["qdrant"]) == ("http://e:9200", "http://q:6333")
    started = {"LEXICAL": "elasticsearch"}
    assert "elasticsearch" in parse_processes(choose(started, tmp_path, own_ports=True).processes(started))


def test_a_started_stack_prints_every_address_and_the_option_that_measures_its_processes(tmp_path: Path) -> None:
    choices = choose({"GATEWAY_PORT": "8500"}, tmp_path, own_ports=False)
    where, option = addresses(choices, {})
    assert where == (
        "Addresses: gateway http://127.0.0.1:8500, lexical http://127.0.0.1:8001, dense http://127.0.0.1:8002, "
        "reranker http://127.0.0.1:8003, late_interaction http://127.0.0.1:8005, evaluator http://127.0.0.1:8009."
    )
    words = shlex.split(option.partition(": ")[2])
    assert words[:5] == [*shlex.split(command_line()), "run", "demo"]
    assert words[-2:] == ["--gateway", "http://127.0.0.1:8500"]
    assert parse_processes(words[words.index("--processes") + 1])["dense"] == "http://127.0.0.1:8002"
    other = shlex.split([*addresses(choices, {"DATASET": "my docs"})][1].partition(": ")[2])
    assert other[other.index("--dataset") + 1] == "my docs"  # `demo` would be another corpus


def test_a_stack_uses_the_engines_and_backends_that_it_does_not_start(tmp_path: Path) -> None:
    small = "http://127.0.0.1:8013"
    named = {
        "ENGINE": "server",
        "ELASTICSEARCH_URL": "http://127.0.0.1:9200",
        "QDRANT_URL": "http://127.0.0.1:6333",
        "GATEWAY_BACKENDS": json.dumps({"small": {"family": "reranker", "url": small}}),
    }
    used = choose(named, tmp_path, own_ports=True).outside_urls(named)
    assert used == (named["ELASTICSEARCH_URL"], named["QDRANT_URL"], small)


@pytest.mark.parametrize("given", [{}, {"LEXICAL": "elasticsearch"}, {"ELASTICSEARCH_URL": "http://127.0.0.1:9200"}])
def test_an_engine_that_the_stack_starts_or_leaves_alone_is_not_outside(given: dict[str, str], tmp_path: Path) -> None:
    assert choose(given, tmp_path, own_ports=True).outside_urls(given) == ()
