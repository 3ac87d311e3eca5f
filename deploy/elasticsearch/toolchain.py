"""Finds Java and Maven and checks their versions. Installs nothing."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.problem import SetupProblem

# Elasticsearch 8 is compiled for Java 17.
OLDEST_JAVA = 17
_JDK_HINT = (
    "install one (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless; macOS: brew install openjdk@17) "
    "or set JAVA_HOME to it; nothing was started"
)
_MAVEN_HINT = "install it (Debian, Ubuntu: apt-get install maven; macOS: brew install maven); nothing was started"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java home and its major version."""

    home: Path
    major: int

    @property
    def compiler(self) -> Path:
        return self.home / "bin" / "javac"


def find_java(environment: Mapping[str, str]) -> Java:
    """Returns the Java of JAVA_HOME, else the one on PATH. Raises SetupProblem when it is too old or missing."""
    home = environment.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    executable = shutil.which(command, path=environment.get("PATH", ""))
    if executable is None:
        where = f"JAVA_HOME={home} holds none" if home else "there is no java on PATH"
        raise SetupProblem(f"Elasticsearch needs a JDK {OLDEST_JAVA} or newer, and {where}: {_JDK_HINT}.")
    # Java itself reports its home: the one on PATH is often a launcher (macOS, jenv, sdkman) outside it.
    answer = subprocess.run(
        [executable, "-XshowSettings:properties", "-version"],
        capture_output=True,
        text=True,
        check=False,
        env=dict(environment),
    )
    found_home = re.search(r"^\s*java\.home = (.+)$", answer.stderr, re.MULTILINE)
    found_version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", answer.stderr, re.MULTILINE)
    if answer.returncode != 0 or found_home is None or found_version is None:
        raise SetupProblem(
            f"Elasticsearch needs a JDK {OLDEST_JAVA} or newer, and {executable} does not run: {_JDK_HINT}."
        )
    java = Java(home=Path(found_home[1].strip()), major=int(found_version[1]))
    if java.major < OLDEST_JAVA:
        raise SetupProblem(
            f"Elasticsearch needs a JDK {OLDEST_JAVA} or newer, and {executable} is Java {java.major}: {_JDK_HINT}."
        )
    return java


def require_compiler(java: Java) -> None:
    """Raises SetupProblem when this Java is a runtime without a compiler."""
    if not java.compiler.exists():
        raise SetupProblem(
            f"Installing Elasticsearch compiles a small plugin, and Java {java.major} at {java.home} has no javac: "
            f"it needs a whole JDK, {_JDK_HINT}."
        )


def find_maven(environment: Mapping[str, str]) -> Path:
    """Returns the mvn on PATH. Raises SetupProblem when there is none."""
    executable = shutil.which("mvn", path=environment.get("PATH", ""))
    if executable is None:
        raise SetupProblem(
            f"Elasticsearch is fetched once from Maven Central, and there is no mvn on PATH: {_MAVEN_HINT}."
        )
    return Path(executable)
