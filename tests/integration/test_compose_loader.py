"""Compose's own loader reads deploy/compose.yaml: it merges and checks what the schema cannot."""

import json
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.support.go_programs import ProgramMissingError, go_program
from tests.support.images import ROOT, Yaml

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

# The loader of docker compose; `go install` names a program by its folder.
LOADER = "github.com/compose-spec/compose-go/v2/cmd@v2.9.0"
FILE = ROOT / "deploy" / "compose.yaml"


@cache
def loader() -> Path:
    """The program, built once; skips where there is no Go or no network to build it with."""
    try:
        return go_program("cmd", LOADER)
    except ProgramMissingError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def loaded() -> Yaml:
    """The file with its defaults; the program reads no variables."""
    return load(FILE)


def load(*files: Path) -> Yaml:
    """The files merged. The program takes the working directory for the project's."""
    done = subprocess.run(
        [loader(), "-format", "json", *files], cwd=FILE.parent, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    merged: Yaml = json.loads(done.stdout)
    return merged


def test_a_second_file_adds_elasticsearch_to_the_dense_service(loaded: Yaml) -> None:
    merged = load(FILE, FILE.parent / "compose.dense-elasticsearch.yaml")["services"]
    before, dense = loaded["services"]["dense"], merged["dense"]
    assert dense["networks"].keys() - before["networks"].keys() == {"elasticsearch"}
    assert dense["depends_on"].keys() - before["depends_on"].keys() == {"elasticsearch", "elasticsearch-keys"}
    assert "DENSE_STORE=elasticsearch" in dense["environment"]
    assert {name: service for name, service in merged.items() if name != "dense"} == {
        name: service for name, service in loaded["services"].items() if name != "dense"
    }


def test_a_single_dollar_sign_reaches_the_shell_in_the_container(loaded: Yaml) -> None:
    assert (
        "ELASTIC_PASSWORD=$(cat /run/secrets/elastic_password)" in loaded["services"]["elasticsearch"]["entrypoint"][-1]
    )


def test_secrets_are_looked_for_beside_the_file(loaded: Yaml) -> None:
    files = {secret["file"] for secret in loaded["secrets"].values()}
    assert {Path(file).relative_to(FILE.parent).parts[0] for file in files} == {".secrets"}
    sources = [volume["source"] for volume in loaded["services"]["gateway"]["volumes"]]
    assert sources == [str(FILE.parent / ".secrets" / "gateway"), "journal"]
