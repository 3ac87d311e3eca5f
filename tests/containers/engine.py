"""Owns a container engine for the tests: Debian's dockerd in namespaces of its own.

Containers, bridges, chains of iptables and mounts lie in these namespaces and end with them, also when this process is
killed. Its cgroups and its scratch folder lie on the machine. Both are removed at the end; what is left is an error.
`python -m tests.containers.engine` says whether one can be started here.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from tests.support.processes import ROOT

# What Debian's packages bring; `docker` is that package's own client, which builds with BuildKit without a plugin.
PROGRAMS = {
    "/usr/sbin/dockerd": "docker.io",
    "/usr/bin/slirp4netns": "slirp4netns",
    "/usr/bin/mmdebstrap": "mmdebstrap",
}
CLIENT = "/usr/bin/docker"
CGROUPS = Path("/sys/fs/cgroup")
STARTED_WITHIN_S = 60.0
ENDED_WITHIN_S = 60.0
# The daemon must find no other engine's containerd; it is process 1 of its namespace, so its end ends all of them.
DAEMON = """
set -e
mkdir -p /run/containerd && mount -t tmpfs tmpfs /run/containerd
ip link set lo up
exec /usr/sbin/dockerd --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" -H "unix://$1/docker.sock" \\
    --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent "/${1##*/}" --dns 10.0.2.3 \\
    --bip 10.201.0.1/24 --default-address-pool base=10.201.128.0/17,size=24
"""
# Dies with this process, also when it is killed.
WITH_US = ("setpriv", "--pdeathsig", "KILL")


class NoEngineError(Exception):
    """No engine runs here, and none can be started; the message says why."""


@dataclass(frozen=True, slots=True)
class Engine:
    """A running engine: its client, and the environment in which the client finds it."""

    client: str
    environment: Mapping[str, str]

    def docker(self, *words: str | Path, cwd: Path = ROOT, within_s: float = 600.0) -> str:
        """Returns what `docker WORDS` prints. Raises AssertionError with its last lines when it fails."""
        done = subprocess.run(
            [self.client, *words], cwd=cwd, env=self.environment, capture_output=True, text=True, timeout=within_s
        )
        assert done.returncode == 0, f"docker {' '.join(map(str, words))}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
        return done.stdout


@contextmanager
def opened_engine() -> Iterator[Engine]:
    """Yields the engine that runs, else starts one, whose network the calling thread enters until the end.

    So 127.0.0.1 is then where that engine publishes ports. Raises NoEngineError where none can be started.
    """
    running = shutil.which("docker")
    if running and subprocess.run([running, "info"], capture_output=True, check=False).returncode == 0:
        print(f"engine: the one that {running} reaches", flush=True)
        yield Engine(running, os.environ | {"DOCKER_BUILDKIT": "1"})
        return
    _install_programs()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    # Not under /tmp, which may be memory: images take gigabytes.
    with tempfile.TemporaryDirectory(prefix="engine-", dir="/var/tmp") as name, ExitStack() as ending:
        folder = Path(name)
        ending.callback(_demand_nothing_left, folder)
        ending.callback(_remove_cgroups, folder.name)
        daemon = _start_daemon(folder, ending)
        environment = os.environ | {"DOCKER_HOST": f"unix://{folder}/docker.sock", "DOCKER_CONFIG": f"{folder}/client"}
        engine = Engine(CLIENT, environment | {"DOCKER_BUILDKIT": "1"})
        _wait_for(engine, daemon, folder / "log")
        _connect(daemon, ending)
        version = engine.docker("version", "--format", "{{.Server.Version}}").strip()
        print(f"engine: dockerd {version}, started in {folder}, addresses 10.201.0.0/16", flush=True)
        ending.callback(_end_containers, engine)
        yield engine
    print(f"engine: ended, and nothing of {folder} is left", flush=True)


def _install_programs() -> None:
    missing = [package for program, package in PROGRAMS.items() if not Path(program).exists()]
    if os.geteuid() != 0:
        raise NoEngineError("none runs, and starting one takes root")
    if missing:
        print(f"engine: apt-get installs {' '.join(missing)}", flush=True)
        install = f"apt-get update -q && apt-get install --yes -q --no-install-recommends {' '.join(missing)}"
        done = subprocess.run(["bash", "-c", install], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NoEngineError(f"apt-get cannot install {' '.join(missing)}: {done.stderr.strip()[-300:]}")


def _start_daemon(folder: Path, ending: ExitStack) -> psutil.Process:
    """Starts dockerd as process 1 of its namespaces; returns it as this machine sees it."""
    unshare = [*WITH_US, "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
    with (folder / "log").open("wb") as log:
        parent = subprocess.Popen([*unshare, "bash", "-c", DAEMON, "-", folder], stdout=log, stderr=log)
    ending.callback(_end, parent)
    deadline = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < deadline and parent.poll() is None:
        # Its first child after `setpriv` and `unshare` have become one process.
        for child in psutil.Process(parent.pid).children():
            ending.callback(_end_daemon, child)
            return child
        time.sleep(0.05)
    raise NoEngineError(f"no namespaces can be made: {(folder / 'log').read_text(errors='replace').strip()[-300:]}")


def _wait_for(engine: Engine, daemon: psutil.Process, log: Path) -> None:
    deadline = time.monotonic() + STARTED_WITHIN_S
    command = [engine.client, "info"]
    while subprocess.run(command, env=engine.environment, capture_output=True, check=False).returncode != 0:
        if not daemon.is_running() or time.monotonic() > deadline:
            raise NoEngineError(f"dockerd does not start: {log.read_text(errors='replace').strip()[-300:]}")
        time.sleep(0.1)


def _connect(daemon: psutil.Process, ending: ExitStack) -> None:
    """Gives the daemon's network a way to the registries, without a rule on this machine, and enters it."""
    ready, write = os.pipe()
    slirp = ["slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback", f"--ready-fd={write}"]
    connected = subprocess.Popen(
        [*WITH_US, *slirp, str(daemon.pid), "tap0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        pass_fds=[write],
    )  # fmt: skip
    ending.callback(_end, connected)
    os.close(write)
    with os.fdopen(ready, "rb") as told:
        if told.read(1) != b"1":
            raise NoEngineError("slirp4netns cannot connect the network of the engine")
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    ending.callback(os.close, own)
    theirs = os.open(f"/proc/{daemon.pid}/ns/net", os.O_RDONLY)
    _enter(theirs)
    os.close(theirs)
    ending.callback(_enter, own)


def _enter(namespace: int) -> None:
    """Moves the calling thread, and all that it starts from now on, into the namespace of an open file."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, 0) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _end_containers(engine: Engine) -> None:
    if containers := engine.docker("ps", "--all", "--quiet").split():
        engine.docker("rm", "--force", "--volumes", *containers)


def _end_daemon(daemon: psutil.Process) -> None:
    daemon.terminate()
    psutil.wait_procs([daemon], timeout=ENDED_WITHIN_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process of ours; all that lives in its namespaces ends with it."""
    process.kill()
    process.wait()


def _remove_cgroups(name: str) -> None:
    for folder in sorted(CGROUPS.glob(f"*/{name}/**/"), reverse=True):
        folder.rmdir()


def _demand_nothing_left(folder: Path) -> None:
    """Raises AssertionError when this machine still has a process, mount, cgroup, address or chain of the engine."""
    looks = (["ps", "-eo", "pid,args"], ["cat", "/proc/mounts"], ["ip", "-o", "address"], ["iptables-save"])
    seen = [line for look in looks for line in subprocess.check_output(look, text=True).splitlines()]
    left = [line for line in seen if folder.name in line]
    left += map(str, CGROUPS.glob(f"*/{folder.name}"))
    assert not left, "the engine left behind:\n" + "\n".join(left)


def main() -> int:
    """Says whether an engine can be started here; returns 0 if so, 1 otherwise."""
    try:
        with opened_engine():
            pass
    except NoEngineError as reason:
        print(f"no engine can be started here: {reason}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
