"""What is said when Java or Maven is missing or will not do. Stand-ins for both are shell scripts on PATH."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.elasticsearch.install import install
from deploy.elasticsearch.problem import SetupProblem
from deploy.elasticsearch.toolchain import find_java, find_maven, require_compiler


@pytest.fixture
def machine() -> Iterator[Path]:
    """A directory that every user can enter (pytest's own are private), to stand for a machine's software."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def put_java(machine: Path, version: str, compiler: bool = True) -> dict[str, str]:
    """Puts a Java of this version on the machine; the environment that has it on PATH."""
    binaries = machine / "jdk" / "bin"
    binaries.mkdir(parents=True)
    java = binaries / "java"
    properties = f"    java.home = {machine}/jdk\n    java.specification.version = {version}\n"
    java.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{properties}END\n", encoding="utf-8")
    java.chmod(0o755)
    if compiler:
        (binaries / "javac").touch(mode=0o755)
    return {"PATH": str(binaries)}


def test_a_machine_without_java_is_told_how_to_get_it(machine: Path) -> None:
    with pytest.raises(SetupProblem, match="JAVA_HOME"):
        find_java({"PATH": str(machine)})


@pytest.mark.parametrize(("version", "major"), [("1.8", 8), ("11", 11), ("16", 16)])
def test_a_java_that_is_too_old_is_named_with_its_version(machine: Path, version: str, major: int) -> None:
    with pytest.raises(SetupProblem, match=f"JDK 17 .*/java .*{major}"):
        find_java(put_java(machine, version))


def test_java_home_is_preferred_to_path(machine: Path) -> None:
    put_java(machine, "21")
    found = find_java({"PATH": "/nowhere", "JAVA_HOME": str(machine / "jdk")})
    assert (found.home, found.major) == (machine / "jdk", 21)


def test_a_runtime_without_a_compiler_is_not_enough_to_install(machine: Path) -> None:
    with pytest.raises(SetupProblem, match="javac"):
        require_compiler(find_java(put_java(machine, "17", compiler=False)))


def test_a_machine_without_maven_is_told_how_to_get_it(machine: Path) -> None:
    with pytest.raises(SetupProblem, match="mvn"):
        find_maven({"PATH": str(machine)})


def test_installing_without_maven_leaves_nothing_behind(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", put_java(machine, "17")["PATH"])
    said: list[str] = []
    with pytest.raises(SetupProblem, match="mvn"):
        install(said.append, cache=machine / "cache")
    assert said == []
    assert list((machine / "cache").iterdir()) == []
