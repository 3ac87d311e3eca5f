"""The API keys of deploy/elasticsearch/keys on a real, secured Elasticsearch: what each may, and how they are made."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from elasticsearch import AuthorizationException, Elasticsearch

from deploy.elasticsearch.endpoint import Endpoint
from tests.support.elasticsearch_server import temporary_server
from tests.support.images import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

KEYS = ROOT / "deploy" / "elasticsearch" / "keys"
OURS, FOREIGN = "retrieval-notes@1", "payroll"
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
    told = {
        "PATH": os.environ["PATH"],
        "ELASTICSEARCH_URL": server.url,
        "ELASTICSEARCH_CA_FILE": str(server.ca_file),
        "ELASTIC_PASSWORD_FILE": str(given),
        "KEYS": str(folder),
    }
    return subprocess.run(["bash", KEYS / "make.sh"], env=told, capture_output=True, text=True, check=False)


def keys_in(folder: Path) -> Mapping[str, str]:
    return {file.name: file.read_text(encoding="utf-8").strip() for file in folder.iterdir() if not file.suffix}


@pytest.fixture(scope="module")
def keys(server: Endpoint, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    folder = tmp_path_factory.mktemp("keys") / "volume"
    folder.mkdir()
    made = make_keys(server, folder)
    assert (made.returncode, made.stderr) == (0, "")
    return keys_in(folder)


@pytest.fixture
def load(server: Endpoint, keys: Mapping[str, str]) -> Iterator[Elasticsearch]:
    with client_of(server, keys["load"]) as client:
        yield client


@pytest.fixture
def search(server: Endpoint, keys: Mapping[str, str]) -> Iterator[Elasticsearch]:
    with client_of(server, keys["search"]) as client:
        yield client


@pytest.fixture
def filled(load: Elasticsearch) -> Iterator[None]:
    """A generation as the lexical service makes it, all with the loading key: begun, loaded, merged, published."""
    load.indices.create(
        index=OURS,
        mappings={"properties": {"text": {"type": "text"}}, "_meta": {"stamp": "a"}},
        aliases={"retrieval-writing": {}},
    )
    answer = load.bulk(
        operations=[{"index": {"_index": "retrieval-writing", "_id": "1"}}, {"text": "a squealing brake"}]
    )
    assert not answer["errors"]
    load.indices.forcemerge(index=OURS, max_num_segments=1)
    load.indices.put_mapping(index=OURS, meta={"published_at": 1})
    load.indices.put_settings(index=OURS, settings={"refresh_interval": "1s"})
    load.indices.update_aliases(actions=[{"add": {"index": OURS, "alias": "retrieval-notes"}}])
    load.indices.refresh(index=OURS)
    yield
    load.indices.delete(index=OURS)


@pytest.mark.usefixtures("filled")
def test_the_key_that_reads_does_all_that_reading_needs(search: Elasticsearch) -> None:
    found = search.search(index=OURS, query={"match": {"text": "brake"}})
    assert [hit["_id"] for hit in found["hits"]["hits"]] == ["1"]
    assert search.mget(index=OURS, ids=["1"])["docs"][0]["_source"] == {"text": "a squealing brake"}
    assert OURS in search.indices.get(index="retrieval-*@*").body
    assert search.indices.stats(index="retrieval-*@*", metric="docs,store")["indices"][OURS]
    point = search.open_point_in_time(index=OURS, keep_alive="1m")["id"]
    assert search.close_point_in_time(id=point)["succeeded"]
    assert search.cluster.health()["status"] in {"green", "yellow"}
    assert search.nodes.info(filter_path="nodes.*.version")["nodes"]


@pytest.mark.usefixtures("filled")
def test_the_key_that_reads_changes_nothing(search: Elasticsearch) -> None:
    with pytest.raises(AuthorizationException):
        search.index(index=OURS, id="2", document={"text": "x"})
    with pytest.raises(AuthorizationException):
        search.bulk(operations=[{"index": {"_index": OURS, "_id": "2"}}, {"text": "x"}])
    with pytest.raises(AuthorizationException):
        search.delete(index=OURS, id="1")
    with pytest.raises(AuthorizationException):
        search.indices.delete(index=OURS)
    with pytest.raises(AuthorizationException):
        search.indices.create(index="retrieval-other@1")
    with pytest.raises(AuthorizationException):
        search.indices.put_mapping(index=OURS, meta={})
    with pytest.raises(AuthorizationException):
        search.indices.update_aliases(actions=[{"add": {"index": OURS, "alias": "retrieval-mine"}}])


@pytest.mark.usefixtures("filled")
def test_the_key_that_loads_deletes_documents_and_reads_none(load: Elasticsearch) -> None:
    assert load.bulk(operations=[{"delete": {"_index": OURS, "_id": "1"}}], refresh=True)["errors"] is False
    with pytest.raises(AuthorizationException):
        load.search(index=OURS)


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
