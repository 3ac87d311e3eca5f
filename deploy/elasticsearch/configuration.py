"""Writes a server's configuration: directories, environment, elasticsearch.yml, jvm.options, log4j2.properties."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.account import make_private_directory, private_directory
from deploy.elasticsearch.install import Installation
from services.files.disk_writes import write_whole

HOST = "127.0.0.1"
# A value of elasticsearch.yml.
Setting = str | int | bool | list[str]
# Where its configuration has the keystore with its certificate.
CERTIFICATES = "tls"
KEYSTORE = "http.p12"
AUTHORITY = "ca.pem"
_HEAP = "1g"

_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%d{ISO8601}][%-5p][%-25c{1.}] [%node_name]%marker %m%consoleException%n
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
"""


@dataclass(frozen=True, slots=True)
class ServerDirectories:
    """The directories of one server. All but `asked` belong to the user that runs it."""

    asked: Path
    config: Path
    data: Path
    logs: Path
    scratch: Path

    @property
    def ports(self) -> Path:
        """File in which the server writes its address."""
        return self.logs / "http.ports"


def make_server_directories(asked: Path, installation: Installation) -> ServerDirectories:
    """Makes a server's directories under `asked` or its substitute (account.private_directory)."""
    account = installation.account
    base = private_directory(asked, account)
    return ServerDirectories(
        asked, *(make_private_directory(base / name, account) for name in ("config", "data", "logs", "scratch"))
    )


def environment(places: ServerDirectories, installation: Installation) -> dict[str, str]:
    """Returns the server's environment. Ours is not passed on: it may hold secrets and ES_* variables."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(places.scratch),
        "ES_JAVA_HOME": str(installation.java.home),
        "ES_PATH_CONF": str(places.config),
        "ES_TMPDIR": str(places.scratch),
    }


def configure(
    places: ServerDirectories,
    installation: Installation,
    port: int | None,
    extra: Mapping[str, Setting],
    certificate: Path | None = None,
) -> None:
    """Rewrites the configuration from the distribution's and ours, and gives it to the server's user at the end.

    `port` None means any free one; `certificate` is a folder with a keystore, copied beside with its authority.
    """
    places.ports.unlink(missing_ok=True)
    shutil.rmtree(places.config)
    shutil.copytree(installation.home / "config", places.config)
    settings: dict[str, Setting] = {
        "cluster.name": "retrieval-stack",
        "discovery.type": "single-node",
        "network.host": HOST,
        "http.port": 0 if port is None else port,
        "transport.port": 0,  # unused; the default range would run out beside other servers
        "node.portsfile": True,
        "path.data": str(places.data),
        "path.logs": str(places.logs),
        # By default every index becomes read-only on a disk that is 95 % full, which on a developer's machine is mostly
        # other files. Writes to a full disk still fail.
        "cluster.routing.allocation.disk.threshold_enabled": False,
        **extra,
    }
    # JSON is YAML, and quotes any character of a path.
    lines = (f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
    write_whole(places.config / "elasticsearch.yml", "".join(lines))
    write_whole(places.config / "log4j2.properties", _LOGGING)
    # Without the distribution's GC log, whose folder is read only.
    theirs = (places.config / "jvm.options").read_text(encoding="utf-8").splitlines()
    ours = [
        f"-Xms{_HEAP}",
        f"-Xmx{_HEAP}",
        "-XX:-HeapDumpOnOutOfMemoryError",
        # One name: a crash writes over the report of the last.
        f"-XX:ErrorFile={places.logs}/hs_err.log",
    ]
    options = [*(line for line in theirs if not line.startswith("-Xlog:")), *ours]
    write_whole(places.config / "jvm.options", "\n".join(options) + "\n")
    if certificate is not None:
        # Elasticsearch reads files only below its configuration.
        (places.config / CERTIFICATES).mkdir()
        shutil.copyfile(certificate / KEYSTORE, places.config / CERTIFICATES / KEYSTORE)
        shutil.copyfile(places.asked / AUTHORITY, places.config / CERTIFICATES / AUTHORITY)
    make_private_directory(places.config, installation.account)
