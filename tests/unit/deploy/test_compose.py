"""deploy/compose.yaml is valid Compose, hardened, and says what the images and deploy/versions.env say.

tests/data/compose-spec.json is the Compose specification's own schema (Apache-2.0, licence beside it).
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from deploy.compose_secrets import FOLDER
from deploy.deployables import DEPLOYABLES, Deployable
from gateway.families import STARTABLE
from services.chassis.settings.strict_yaml import parse_yaml
from tests.support.images import ROOT, Yaml, build_context, container_environment, settings_of, variables, versions
from tests.support.made_secrets import copy_secrets

FILE = ROOT / "deploy" / "compose.yaml"
ALL = pytest.mark.parametrize("deployable", DEPLOYABLES.values(), ids=DEPLOYABLES)
STORES = ("elasticsearch", "qdrant")
# Those that start with deploy/systems.env alone.
SYSTEMS = ("sparse", "late-interaction", "dense-bge", "dense-e5")
# Ends once the lexical service has its keys.
KEY_MAKER = "elasticsearch-keys"
# Who may talk to whom, as k8s/ has it; the stores' own pairs last.
PAIRS = {
    "evaluator": {"evaluator", "gateway"},
    "lexical": {"gateway", "lexical"},
    "dense": {"gateway", "dense"},
    **{name: {"gateway", name} for name in SYSTEMS},
    "reranker": {"gateway", "reranker"},
    "elasticsearch": {"lexical", "elasticsearch", KEY_MAKER},
    "qdrant": {"dense", *SYSTEMS, "qdrant"},
}


def compose(environment: Mapping[str, str]) -> Yaml:
    """The file as Compose reads it: `${NAME:-default}` replaced, `$$` unescaped, anchors merged."""

    def value(found: re.Match[str]) -> str:
        name, default = found["name"], found["default"]
        if default is None and name not in environment:
            raise AssertionError(f"{name} has no default")
        return environment.get(name) or default

    text = re.sub(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}", value, FILE.read_text(encoding="utf-8"))
    parsed: Yaml = parse_yaml(text.replace("$$", "$"))
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
def test_what_a_container_of_ours_is_told_are_settings_that_it_has(
    services: Yaml, deployable: Deployable, tmp_path: Path
) -> None:
    told = services[deployable.name]["environment"]
    assert told.keys() - variables(deployable) == set()
    settings = settings_of(deployable, container_environment(deployable.name) | on_this_machine(told, tmp_path))
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


def test_a_network_has_the_two_that_may_talk_so_a_store_only_its_own_service(services: Yaml) -> None:
    networks = compose({})["networks"]
    members = {name: {one for one, service in services.items() if name in service["networks"]} for name in networks}
    assert members == PAIRS | {"public": {"gateway"}}
    assert {name for name, network in networks.items() if not network.get("internal")} == {"public"}


def test_every_volume_and_every_dependency_is_there(services: Yaml) -> None:
    named = {
        volume.split(":")[0] for s in services.values() for volume in s.get("volumes", []) if isinstance(volume, str)
    }
    assert named == compose({})["volumes"].keys()
    for service in services.values():
        assert service.get("depends_on", {}).keys() <= services.keys()


def on_this_machine(told: Mapping[str, str], folder: Path) -> dict[str, str]:
    """An environment with files of this machine in place of those that are mounted."""
    copy_secrets(folder)
    for key in ("load", "search", "keys.json"):
        (folder / key).write_text("{}", encoding="utf-8")
    files = compose({"STACK_SECRETS": str(folder)})["secrets"]
    paths = {f"/run/secrets/{name}": secret["file"] for name, secret in files.items()}
    paths |= {f"/keys/{key}": str(folder / key) for key in ("load", "search", "keys.json")}
    return {name: paths.get(value, value) for name, value in told.items()}


def secrets_of(service: Yaml) -> dict[str, str]:
    """The path in the container of each secret that a service has, by name."""
    found = (one if isinstance(one, dict) else {"source": one} for one in service.get("secrets", []))
    return {one["source"]: one.get("target", f"/run/secrets/{one['source']}") for one in found}


def test_every_secret_is_a_file_that_compose_secrets_makes_and_somebody_needs(services: Yaml, tmp_path: Path) -> None:
    copy_secrets(tmp_path)
    declared = compose({"STACK_SECRETS": str(tmp_path)})["secrets"]
    assert [name for name, secret in declared.items() if not Path(secret["file"]).is_file()] == []
    assert declared.keys() == {name for service in services.values() for name in secrets_of(service)}
    folder = compose({"STACK_SECRETS": str(tmp_path)})["services"]["gateway"]["volumes"][0]
    assert Path(folder["source"]).is_dir()


def test_secrets_stay_out_of_git_and_of_images() -> None:
    (own,) = {Path(secret["file"]).parts[0] for secret in compose({})["secrets"].values()}
    assert FILE.parent / own == FOLDER
    assert f"deploy/{own}/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert f"**/{own}" in build_context()[1]


def test_no_secret_stands_in_an_environment(services: Yaml) -> None:
    told = {name: value for service in services.values() for name, value in service.get("environment", {}).items()}
    secret = {
        name for name in told if re.search(r"TOKEN|PASSWORD|API_KEY|CERT|(?<!PIPELINE)_KEYS?(_FILE)?$|__KEY$", name)
    }
    assert {name: told[name] for name in secret if not str(told[name]).startswith(("/run/secrets/", "/keys/"))} == {}
    assert len(secret) >= 18


@pytest.mark.parametrize("name", [*DEPLOYABLES, *STORES, KEY_MAKER])
def test_a_container_has_exactly_the_secrets_that_it_is_told_of(services: Yaml, name: str) -> None:
    service = services[name]
    told = json.dumps([service.get("environment"), service.get("entrypoint")])
    named = set(re.findall(r"/run/secrets/(\w+)", told))
    mounted = {secret for secret, path in secrets_of(service).items() if path.startswith("/run/secrets/")}
    assert named == mounted
    keys = {volume.split(":")[1] for volume in service.get("volumes", []) if "keys:" in str(volume)[:20]}
    assert all(f'"{folder}' in told for folder in keys)


@pytest.mark.parametrize("name", [*DEPLOYABLES, *STORES])
def test_every_listener_has_the_certificate_of_its_own_name(services: Yaml, name: str) -> None:
    certificates = {secret for secret in secrets_of(services[name]) if "certificate" in secret}
    certificate = f"{name.replace('-', '_')}_certificate"
    assert certificates == {certificate, f"{certificate}_key"}
    files = compose({})["secrets"]
    assert Path(files[certificate]["file"]).name == f"{name}.crt"
    assert Path(files[f"{certificate}_key"]["file"]).name == f"{name}.key"


@ALL
def test_every_process_of_ours_knows_its_callers_and_speaks_tls(services: Yaml, deployable: Deployable) -> None:
    told = services[deployable.name]["environment"]
    certificate = f"{deployable.name.replace('-', '_')}_certificate"
    assert told["STACK_TOKEN_FILE"] == "/run/secrets/stack_token"
    assert told[f"{deployable.prefix}TLS_CERT_FILE"] == f"/run/secrets/{certificate}"
    assert told[f"{deployable.prefix}TLS_KEY_FILE"] == f"/run/secrets/{certificate}_key"
    assert f"{deployable.prefix}AUTH" not in told
    assert f"{deployable.prefix}TRUSTED_PLAIN" not in told
    calls = {"gateway": "STACK", "evaluator": "STACK", "lexical": "ELASTICSEARCH"} | dict.fromkeys(
        ("dense", *SYSTEMS), "QDRANT"
    )
    if deployable.name in calls:
        assert told[f"{calls[deployable.name]}_CA_FILE"] == "/run/secrets/authority"


def test_elasticsearch_speaks_to_nodes_on_its_own_host_alone(services: Yaml) -> None:
    """That port asks for neither a key nor TLS, and a network of Compose tells no ports apart."""
    assert services["elasticsearch"]["environment"]["transport.host"] == "127.0.0.1"


def test_only_the_lexical_service_has_the_keys_of_elasticsearch_and_cannot_change_them(services: Yaml) -> None:
    mounted = {name: [v for v in s.get("volumes", []) if str(v).startswith(KEY_MAKER)] for name, s in services.items()}
    assert {name: volumes for name, volumes in mounted.items() if volumes} == {
        "lexical": ["elasticsearch-keys:/keys:ro"],
        KEY_MAKER: ["elasticsearch-keys:/keys"],
    }
    told = services["lexical"]["environment"]
    made = {file.stem for file in (FILE.parent / "elasticsearch" / "keys").glob("*.json")}
    assert {Path(told[f"ELASTICSEARCH{kind}API_KEY_FILE"]).name for kind in ("_", "_SEARCH_")} == made
    assert services["lexical"]["depends_on"][KEY_MAKER] == {"condition": "service_completed_successfully"}
    assert "elastic_password" not in secrets_of(services["lexical"])


def test_dense_vectors_go_to_elasticsearch_by_a_second_file(services: Yaml, tmp_path: Path) -> None:
    added = parse_yaml((FILE.parent / "compose.dense-elasticsearch.yaml").read_text(encoding="utf-8"))["services"]
    assert added.keys() == {"dense"}
    told, lexical = added["dense"]["environment"], services["lexical"]
    same = {name: value for name, value in lexical["environment"].items() if name.startswith("ELASTICSEARCH_")}
    prefix = f"{lexical['environment']['LEXICAL_INDEX_PREFIX']}dense."
    assert told == {"DENSE_STORE": "elasticsearch", "DENSE_PREFIX": prefix, **same}
    assert all(added["dense"][key] == lexical[key] for key in ("volumes", "depends_on"))
    assert added["dense"]["networks"] == ["elasticsearch"]
    environment = on_this_machine({**services["dense"]["environment"], **told}, tmp_path)
    assert settings_of(DEPLOYABLES["dense"], container_environment("dense") | environment)


def test_the_maker_of_keys_runs_once_without_privileges(services: Yaml) -> None:
    maker = services[KEY_MAKER]
    assert (maker["cap_drop"], maker["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
    assert (maker["restart"], maker["read_only"]) == ("no", True)
    assert {"mem_limit", "cpus", "pids_limit", "logging"} <= maker.keys()
    assert maker["image"] == services["elasticsearch"]["image"]


@pytest.mark.parametrize("key", ["load", "search"])
def test_a_key_may_touch_the_indices_of_the_lexical_service_alone(services: Yaml, key: str) -> None:
    body = json.loads((FILE.parent / "elasticsearch" / "keys" / f"{key}.json").read_text(encoding="utf-8"))
    (role,) = body["role_descriptors"].values()
    (indices,) = role["indices"]
    assert indices["names"] == [f"{services['lexical']['environment']['LEXICAL_INDEX_PREFIX']}*"]
    assert set(role.get("cluster", [])) <= {"monitor"}


def test_images_are_taken_by_the_digests_of_versions_env_where_it_has_them(services: Yaml) -> None:
    digest = f"@sha256:{'0' * 64}"
    pinned = compose(
        {"ELASTICSEARCH_IMAGE_DIGEST": digest, "QDRANT_IMAGE_DIGEST": digest, "PYTHON_IMAGE": f"p{digest}"}
    )
    for name in (*STORES, KEY_MAKER):
        assert pinned["services"][name]["image"] == services[name]["image"] + digest
    for name in DEPLOYABLES:
        assert pinned["services"][name]["build"]["args"]["PYTHON_IMAGE"] == f"p{digest}"
        assert services[name]["build"]["args"]["PYTHON_IMAGE"] == versions()["PYTHON_IMAGE"]
    assert {"ELASTICSEARCH_IMAGE_DIGEST", "QDRANT_IMAGE_DIGEST"} <= versions().keys()
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines()
    assert f"ARG PYTHON_IMAGE={versions()['PYTHON_IMAGE']}" in dockerfile


def test_what_is_off_starts_with_its_address_at_the_gateway_and_not_without(services: Yaml) -> None:
    lines = (FILE.parent / "systems.env").read_text(encoding="utf-8").splitlines()
    chosen = {name: value.strip("'") for name, _, value in (line.partition("=") for line in lines if line[0] != "#")}
    assert {name: service["profiles"] for name, service in services.items() if "profiles" in service} == {
        name: [name] for name in SYSTEMS
    }
    assert tuple(chosen["COMPOSE_PROFILES"].split(",")) == SYSTEMS
    usual = json.loads(services["gateway"]["environment"]["GATEWAY_BACKENDS"])
    all_of_them = json.loads(compose(chosen)["services"]["gateway"]["environment"]["GATEWAY_BACKENDS"])
    assert all_of_them == usual | {
        name.replace("-", "_"): {
            "family": STARTABLE[name.replace("-", "_")],
            "url": f"https://{name}:{DEPLOYABLES[name].port}",
        }
        for name in SYSTEMS
    }
    assert all(name not in services["gateway"]["depends_on"] for name in SYSTEMS)


def test_addresses_inside_the_network_are_those_of_the_services(services: Yaml) -> None:
    text = json.dumps([service.get("environment", {}) for service in services.values()])
    ports = {name: deployable.port for name, deployable in DEPLOYABLES.items()} | {
        "elasticsearch": 9200,
        "qdrant": 6333,
    }
    called = re.findall(r"https://([a-z-]+):(\d+)", text)
    assert len(called) == 11
    assert "http://" not in text
    assert [(name, int(port)) for name, port in called] == [(name, ports[name]) for name, _ in called]
