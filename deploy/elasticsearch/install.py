"""Fetches the distribution from Maven Central and adds our plugins. Owns the cache; starts nothing."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from string import Template

from deploy.elasticsearch.account import Account, can_read, server_account, shared_directory
from deploy.elasticsearch.problem import SetupProblem
from deploy.elasticsearch.toolchain import Java, find_java, find_maven, require_compiler
from services.files.disk_writes import write_whole
from services.files.regular_file import open_lock

_HERE = Path(__file__).resolve().parent
_PLUGINS = (_HERE / "plugin" / "languages", _HERE / "plugin" / "security")
ROOT = _HERE.parent.parent
CACHE = ROOT / ".cache" / "elasticsearch"
_TICK_S = 10.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Release:
    """A version of the distribution and the sha256 of its zip."""

    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Installation:
    """A distribution that is ready to start; read only, shared by all servers."""

    home: Path
    java: Java
    account: Account | None


def release() -> Release:
    """Reads the release that deploy/versions.env pins."""
    lines = (_HERE.parent / "versions.env").read_text(encoding="utf-8").splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return Release(version=pairs["ELASTICSEARCH_VERSION"], sha256=pairs["ELASTICSEARCH_SHA256"])


def install(say: Say, cache: Path = CACHE) -> Installation:
    """Returns the distribution of deploy/versions.env, fetched and built unless it is cached.

    Takes seconds to a few minutes the first time (97 MB) and under a second afterwards. Concurrent calls are safe.
    Raises SetupProblem when Java, Maven or the network is missing.
    """
    java = find_java(os.environ)
    account = server_account()
    if account is not None and not can_read(account, java.home / "bin" / "java"):
        raise SetupProblem(
            f"Elasticsearch refuses to run as root, and the user {account.name} cannot read the Java at {java.home}: "
            "set JAVA_HOME to one that every user can read, or run this command as an ordinary user; "
            "nothing was started."
        )
    wanted = release()
    place = shared_directory(cache, account)
    home = place / f"{wanted.version}-{_digest(wanted)}"
    # A distribution appears by one rename, so an existing one is complete.
    if not home.exists():
        require_compiler(java)
        maven = find_maven(os.environ)
        with _install_lock(place, say):
            if not home.exists():
                _build(home, wanted, java, maven, say)
    return Installation(home=home, java=java, account=account)


def _digest(wanted: Release) -> str:
    """Hashes everything that an installation is made from to eight hex digits."""
    digest = hashlib.sha256(wanted.sha256.encode())
    for source in (_HERE / "pom.xml", *(file for plugin in _PLUGINS for file in sorted(plugin.iterdir()))):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:8]


@contextmanager
def _install_lock(place: Path, say: Say) -> Iterator[None]:
    """Holds the cache's lock, waiting for another holder; the kernel frees it when its holder dies."""
    with open_lock(place / ".lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is installing Elasticsearch: waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(home: Path, wanted: Release, java: Java, maven: Path, say: Say) -> None:
    for leftover in home.parent.glob(".building-*"):  # of a build that was killed; the lock is ours
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=home.parent) as directory:
        building = Path(directory)
        archive = _fetch(building, wanted, maven, home.parent / "maven.log", say)
        say("Unpacking it and adding our plugins ...")
        unpacked = _unpack(archive, building)
        for sources in _PLUGINS:
            _add_plugin(sources, unpacked, wanted, java)
        unpacked.rename(home)
    say(f"Elasticsearch {wanted.version} is installed in {home}")


def _fetch(building: Path, wanted: Release, maven: Path, log: Path, say: Say) -> Path:
    """Fetches the distribution's zip into `building` and checks its sha256."""
    say(f"Fetching Elasticsearch {wanted.version} from Maven Central (97 MB, once) ...")
    command = [str(maven), "--batch-mode", "--no-transfer-progress", "--strict-checksums", "--file", "pom.xml"]
    command += [f"-Delasticsearch.version={wanted.version}", f"-Dtarget={building}", "generate-resources"]
    with log.open("w", encoding="utf-8") as output:
        fetching = subprocess.Popen(
            command, cwd=_HERE, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            waited_s = 0.0
            while fetching.poll() is None:
                try:
                    fetching.wait(timeout=_TICK_S)
                except subprocess.TimeoutExpired:
                    waited_s += _TICK_S
                    say(f"  still fetching ({waited_s:.0f} s)")
        finally:
            if fetching.poll() is None:
                fetching.terminate()
                fetching.wait()
    archive = building / f"elasticsearch-{wanted.version}.zip"
    if fetching.returncode != 0 or not archive.exists():
        errors = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if "[ERROR]" in line]
        raise SetupProblem(
            f"Maven could not bring Elasticsearch {wanted.version} from Maven Central: check the network and "
            f"~/.m2/settings.xml, then try again (all of its output is in {log}; it says: "
            f"{errors[0] if errors else 'nothing'})."
        )
    with archive.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != wanted.sha256:
        raise SetupProblem(
            f"The Elasticsearch {wanted.version} that Maven brought has the sha256 {digest}, and deploy/versions.env "
            f"pins {wanted.sha256}: remove it from the local Maven repository and try again, or, when the version was "
            "changed on purpose, pin the new one."
        )
    return archive


def _unpack(archive: Path, building: Path) -> Path:
    """Unpacks the distribution with the modes of the zip, regardless of the umask; returns its folder."""
    with zipfile.ZipFile(archive) as content:
        for entry in content.infolist():
            path = Path(content.extract(entry, building))
            path.chmod(0o755 if entry.is_dir() else (entry.external_attr >> 16 & 0o777) or 0o644)
    return building / archive.stem


def _add_plugin(sources: Path, home: Path, wanted: Release, java: Java) -> None:
    """Compiles a plugin against the distribution's own libraries and puts it into plugins/."""
    plugin = home / "plugins" / sources.name
    plugin.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as classes:
        compiler = [str(java.compiler), "--release", "17", "-proc:none", "-classpath", f"{home}/lib/*", "-d", classes]
        compiled = subprocess.run(
            [*compiler, *map(str, sorted(sources.glob("*.java")))], capture_output=True, text=True, check=False
        )
        if compiled.returncode != 0:
            raise SetupProblem(f"javac of {java.home} could not compile {sources}: {compiled.stderr}")
        with zipfile.ZipFile(plugin / f"{sources.name}.jar", "w") as jar:
            for path in sorted(Path(classes).rglob("*.class")):
                jar.write(path, path.relative_to(classes))
    descriptor = Template((sources / "stable-plugin-descriptor.properties").read_text(encoding="utf-8"))
    write_whole(
        plugin / "stable-plugin-descriptor.properties", descriptor.substitute(elasticsearch_version=wanted.version)
    )
    shutil.copyfile(sources / "named_components.json", plugin / "named_components.json")
    for path in (home, plugin.parent, plugin, *plugin.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
