"""The API keys of deploy/elasticsearch/keys on a real, secured Elasticsearch: what each may, and how they are made."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from elasticsearch import AuthorizationException, Elasticsearch

from deploy.elasticsearch.endpoint import Endpoint
from tests.integration.test_lexical_secured import roles
from tests.support.elasticsearch_server import temporary_server
from tests.support.images import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

KEYS = ROOT / "deploy" / "elasticsearch" / "keys"
FOREIGN = "payroll"
PASSWORD = "not a secret: of a test"


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    with temporary_server(secured=True) as endpoint:
        with client_of(endpoint, endpoint.api_key) as elastic:
            elastic.security.change_password(username="elastic", password=PASSWORD)
            elastic.indices.create(index=FOREIGN)
            elastic.index(index=FOREIGN, id="1", document={"text": "salaries"}, refresh=True)
        yield endpoint


def client_of(endpoint: Endpoint, key: str | None) -> Elasticsearch:
    return Elasticsearch(endpoint.url, ca_certs=str(endpoint.ca_file), api_key=key)


def make_keys(server: Endpoint, folder: Path, password: str = PASSWORD) -> subprocess.CompletedProcess[str]:
    """Runs the script as the container of deploy/compose.yaml does; `folder` is its volume."""
    given = folder.parent / "password"
    given.write_text(f"{password}\n", encoding="utf-8")
    environment = {
        "PATH": os.environ["PATH"],
        "ELASTICSEARCH_URL": server.url,
        "ELASTICSEARCH_CA_FILE": str(server.ca_file),
        "ELASTIC_PASSWORD_FILE": str(given),
        "KEYS": str(folder),
    }
    return subprocess.run(["bash", KEYS / "make.sh"], env=environment, capture_output=True, text=True, check=False)


def keys_in(folder: Path) -> Mapping[str, str]:
    return {file.name: file.read_text(encoding="utf-8").strip() for file in folder.iterdir() if not file.suffix}


@pytest.fixture(scope="module")
def keys(server: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("keys") / "volume"
    folder.mkdir()
    made = make_keys(server, folder)
    assert (made.returncode, made.stderr) == (0, "")
    return keys_in(folder)


@pytest.mark.parametrize(("name", "role"), [("load", "writes"), ("search", "reads")])
def test_a_key_has_the_rights_that_the_lexical_service_documents(name: str, role: str) -> None:
    descriptors = json.loads((KEYS / f"{name}.json").read_text(encoding="utf-8"))["role_descriptors"]
    assert descriptors == {role: roles("retrieval-")[role]}


@pytest.mark.parametrize("name", ["load", "search"])
def test_no_key_touches_the_indices_of_others_or_makes_keys(
    server: Endpoint, keys: Mapping[str, str], name: str
) -> None:
    with client_of(server, keys[name]) as client:
        for act in (
            lambda: client.search(index=FOREIGN),
            lambda: client.get(index=FOREIGN, id="1"),
            lambda: client.index(index=FOREIGN, document={"text": "x"}),
            lambda: client.indices.create(index="others"),
            lambda: client.indices.delete(index=FOREIGN),
            lambda: client.indices.get(index=FOREIGN),
            lambda: client.indices.put_alias(index=FOREIGN, name="retrieval-theirs"),
            lambda: client.security.create_api_key(name="another"),
            lambda: client.cluster.put_settings(persistent={"action.destructive_requires_name": "true"}),
        ):
            with pytest.raises(AuthorizationException):
                act()


def test_keys_that_open_are_kept_and_others_are_made(server: Endpoint, tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    assert make_keys(server, folder).stdout.count("Made the key") == 2
    first = keys_in(folder)
    assert make_keys(server, folder).stdout.count("is there") == 2
    assert keys_in(folder) == first
    (folder / "search").write_text("d3Jvbmc6d3Jvbmc=\n", encoding="utf-8")
    rights = json.loads((folder / "load.json").read_text(encoding="utf-8"))
    (folder / "load.json").write_text(json.dumps(rights), encoding="utf-8")  # of a release before, say
    assert make_keys(server, folder).stdout.count("Made the key") == 2
    after = keys_in(folder)
    assert after.keys() == {"load", "search"}
    assert not set(after.values()) & set(first.values())


def test_a_wrong_password_is_said_and_leaves_no_key(server: Endpoint, tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    failed = make_keys(server, folder, password="wrong")
    assert failed.returncode == 1
    assert "made no key `load`" in failed.stderr
    assert "wrong" not in failed.stderr
    assert list(folder.iterdir()) == []
