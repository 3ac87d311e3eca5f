"""What one server is told: its directories, environment, elasticsearch.yml, jvm.options and log4j2.properties."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.account import own_directory, private_place
from deploy.elasticsearch.install import Installation

HOST = "127.0.0.1"
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
class Places:
    """The directories of one server. All but `asked` belong to the user that runs it."""

    asked: Path
    config: Path
    data: Path
    logs: Path
    scratch: Path

    @property
    def ports(self) -> Path:
        """Where the server writes the address that it listens on."""
        return self.logs / "http.ports"


def lay_out(asked: Path, installation: Installation) -> Places:
    """Makes a server's directories under `asked`, or under what stands in for it (account.private_place)."""
    account = installation.account
    base = private_place(asked, account)
    return Places(asked, *(own_directory(base / name, account) for name in ("config", "data", "logs", "scratch")))


def environment(places: Places, installation: Installation) -> dict[str, str]:
    """The server's environment. Ours is not passed on: it may hold secrets, and a user's ES_* would change things."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(places.scratch),
        "ES_JAVA_HOME": str(installation.java.home),
        "ES_PATH_CONF": str(places.config),
        "ES_TMPDIR": str(places.scratch),
    }


def configure(places: Places, installation: Installation, port: int | None, extra: dict[str, str | bool]) -> None:
    """Writes the configuration anew, from the distribution's and ours; `port` None means any free one."""
    places.ports.unlink(missing_ok=True)
    shutil.rmtree(places.config)
    shutil.copytree(installation.home / "config", places.config)
    settings: dict[str, str | int | bool] = {
        "cluster.name": "retrieval-stack",
        "discovery.type": "single-node",
        "network.host": HOST,
        "http.port": 0 if port is None else port,
        "transport.port": 0,  # nobody calls it; the default range would run out beside other servers
        "node.portsfile": True,
        "path.data": str(places.data),
        "path.logs": str(places.logs),
        # By default a disk that is 95 % full makes every index read-only: on a developer's machine that is a share of
        # somebody else's files, not a danger to this server. A disk that is really full still fails its writes.
        "cluster.routing.allocation.disk.threshold_enabled": False,
        **extra,
    }
    # JSON is YAML, and quotes whatever a path may hold.
    lines = (f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
    (places.config / "elasticsearch.yml").write_text("".join(lines), encoding="utf-8")
    (places.config / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
    (places.config / "jvm.options").write_text(_jvm_options(places), encoding="utf-8")
    own_directory(places.config, installation.account)


def _jvm_options(places: Places) -> str:
    """The distribution's options but its garbage collection log, which it keeps in itself, where we are read only."""
    theirs = (places.config / "jvm.options").read_text(encoding="utf-8").splitlines()
    ours = [
        f"-Xms{_HEAP}",
        f"-Xmx{_HEAP}",
        "-XX:-HeapDumpOnOutOfMemoryError",
        f"-XX:ErrorFile={places.logs}/hs_err_pid%p.log",
    ]
    return "\n".join([*(line for line in theirs if not line.startswith("-Xlog:")), *ours]) + "\n"
