"""deploy/compose.yaml is valid Compose, hardened, and says what the images and deploy/versions.env say.

tests/data/compose-spec.json is the Compose specification's own schema (Apache-2.0, licence beside it).
"""

import json
import re
from collections.abc import Mapping

import pytest
import yaml
from jsonschema import Draft202012Validator

from deploy.deployables import DEPLOYABLES, Deployable
from tests.support.images import ROOT, Yaml, container_environment, settings_of, variables, versions

FILE = ROOT / "deploy" / "compose.yaml"
ALL = pytest.mark.parametrize("deployable", DEPLOYABLES.values(), ids=DEPLOYABLES)
STORES = ("elasticsearch", "qdrant")


def compose(environment: Mapping[str, str]) -> Yaml:
    """The file as Compose reads it: `${NAME}` and `${NAME:-default}` replaced, anchors merged."""

    def value(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if default is None and name not in environment:
            raise AssertionError(f"{name} has no default")
        return environment.get(name) or default

    text = re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", value, FILE.read_text(encoding="utf-8"))
    parsed: Yaml = yaml.safe_load(text)
    return parsed


@pytest.fixture(scope="module")
def services() -> Yaml:
    found: Yaml = compose({})["services"]
    return found


@pytest.mark.parametrize("environment", [{}, {"RUNTIME": "gpu", "STACK_VERSION": "1.2.3", "DATASETS": "/srv/beir"}])
def test_the_file_follows_the_specification(environment: Mapping[str, str]) -> None:
    schema = json.loads((ROOT / "tests" / "data" / "compose-spec.json").read_text(encoding="utf-8"))
    problems = Draft202012Validator(schema).iter_errors(compose(environment))
    assert [f"{'.'.join(map(str, problem.path))}: {problem.message}" for problem in problems] == []


def test_the_schema_refuses_a_misspelled_key() -> None:
    schema = json.loads((ROOT / "tests" / "data" / "compose-spec.json").read_text(encoding="utf-8"))
    wrong = compose({})
    wrong["services"]["gateway"]["helthcheck"] = {}
    assert not Draft202012Validator(schema).is_valid(wrong)


def test_the_services_are_ours_and_the_two_stores(services: Yaml) -> None:
    assert services.keys() == {*DEPLOYABLES, *STORES}


def test_the_versions_of_the_stores_are_those_of_versions_env(services: Yaml) -> None:
    assert services["elasticsearch"]["image"].endswith(f"/elasticsearch:{versions()['ELASTICSEARCH_VERSION']}")
    assert services["qdrant"]["image"] == f"qdrant/qdrant:v{versions()['QDRANT_VERSION']}-unprivileged"


@pytest.mark.parametrize("name", [*DEPLOYABLES, *STORES])
def test_every_container_is_limited_watched_and_without_privileges(services: Yaml, name: str) -> None:
    service = services[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["healthcheck"]["test"][0] == "CMD"
    assert service["restart"] == "unless-stopped"
    assert {"mem_limit", "cpus", "networks", "logging", "stop_grace_period"} <= service.keys()
    # Why Elasticsearch is not stands in the file.
    assert service.get("read_only", False) == (name != "elasticsearch")


@ALL
def test_what_a_container_of_ours_is_told_are_settings_that_it_has(services: Yaml, deployable: Deployable) -> None:
    told = services[deployable.name]["environment"]
    assert told.keys() - variables(deployable) == set()
    settings = settings_of(deployable, container_environment(deployable.name) | told)
    assert int(services[deployable.name]["stop_grace_period"].removesuffix("s")) > settings.drain_s + settings.grace_s


@ALL
def test_an_image_of_ours_is_built_from_the_one_dockerfile(services: Yaml, deployable: Deployable) -> None:
    service = services[deployable.name]
    assert service["image"].startswith(f"retrieval-stack/{deployable.name}:")
    assert (FILE.parent / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    assert service["build"]["args"]["DEPLOYABLE"] == deployable.name
    assert ("RUNTIME" in service["build"]["args"]) == bool(deployable.models)
    assert service["healthcheck"]["test"][-1] == "/readyz"


def test_the_only_published_port_is_the_gateway_on_this_machine(services: Yaml) -> None:
    assert {name: service["ports"] for name, service in services.items() if "ports" in service} == {
        "gateway": ["127.0.0.1:8000:8000"]
    }


def test_only_the_service_of_a_store_shares_a_network_with_it(services: Yaml) -> None:
    on_stores = {name for name, service in services.items() if "stores" in service["networks"]}
    assert on_stores == {*STORES, "lexical", "dense"}
    networks = compose({})["networks"]
    assert {name for name, network in networks.items() if not network.get("internal")} == {"public"}
    assert [name for name, service in services.items() if "public" in service["networks"]] == ["gateway"]


def test_every_volume_and_every_dependency_is_there(services: Yaml) -> None:
    named = {
        volume.split(":")[0] for s in services.values() for volume in s.get("volumes", []) if isinstance(volume, str)
    }
    assert named == compose({})["volumes"].keys()
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()


def test_addresses_inside_the_network_are_those_of_the_services(services: Yaml) -> None:
    text = json.dumps([service.get("environment", {}) for service in services.values()])
    ports = {name: deployable.port for name, deployable in DEPLOYABLES.items()} | {
        "elasticsearch": 9200,
        "qdrant": 6333,
    }
    called = re.findall(r"http://([a-z]+):(\d+)", text)
    assert len(called) == 6
    assert [(name, int(port)) for name, port in called] == [(name, ports[name]) for name, _ in called]
