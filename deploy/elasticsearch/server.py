"""One Elasticsearch process: started as an unprivileged user, watched until it is healthy, stopped by its own pid."""

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from deploy.elasticsearch.configuration import HOST, Places, configure, lay_out
from deploy.elasticsearch.install import Installation, install
from deploy.elasticsearch.problem import SetupProblem

# 12 s on a quiet machine; tests share two cores with others.
HEALTHY_WITHIN_S = 180.0
# It closes its indices first. The launcher's own limit is longer; past ours it is killed.
_STOPPED_WITHIN_S = 30.0
_POLL_S = 0.2
# A local address is asked directly, whatever http_proxy says.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True, slots=True)
class Record:
    """What a data directory says of the server that uses it: written to server.json beside the data."""

    pid: int
    url: str


class ElasticsearchServer:
    """A started server. Owns the process (the pid is Java's own) and the lock of its data directory."""

    def __init__(self, process: subprocess.Popen[bytes], places: Places) -> None:
        self._process = process
        self._places = places

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_healthy(self, timeout_s: float = HEALTHY_WITHIN_S) -> str:
        """The server's URL, once its cluster is green or yellow. Raises SetupProblem when it ends or takes longer."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise SetupProblem(
                    f"Elasticsearch ended with exit status {self._process.returncode} before it was healthy: its "
                    "output says why."
                )
            url = _address(self._places.ports)
            if url is not None and is_healthy(url):
                _record_file(self._places.asked).write_text(json.dumps({"pid": self.pid, "url": url}), encoding="utf-8")
                return url
            time.sleep(_POLL_S)
        raise SetupProblem(f"Elasticsearch was not healthy within {timeout_s:.0f} s: its output says how far it came.")

    def wait(self) -> int:
        """Waits until the process ends; its exit status."""
        return self._process.wait()

    def stop(self) -> None:
        """Ends the process and waits for it. The server's own JVM is a child that ends when this one does."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def start_server(
    installation: Installation,
    data: Path,
    port: int | None = None,
    output: IO[bytes] | None = None,
    outlives_us: bool = False,
) -> ElasticsearchServer:
    """Starts a server on `data`, which it then uses alone, and returns at once.

    `port` None means any free one; `output` None means our own; unless it `outlives_us`, it is ended when we die,
    by SIGKILL too (on Linux). Raises SetupProblem when the data directory is in use.
    """
    places = lay_out(data, installation)
    lock = _lock(data)
    try:
        configure(places, installation, port, {"xpack.security.enabled": False})
        account = installation.account
        process = subprocess.Popen(
            [str(installation.home / "bin" / "elasticsearch")],
            # Ours is not passed on: it may hold secrets, and JAVA_* and ES_* of the user would change the server.
            env={
                "PATH": os.environ.get("PATH", os.defpath),
                "HOME": str(places.scratch),
                "ES_JAVA_HOME": str(installation.java.home),
                "ES_PATH_CONF": str(places.config),
                "ES_TMPDIR": str(places.scratch),
            },
            cwd=installation.home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            user=None if account is None else account.uid,
            group=None if account is None else account.gid,
            extra_groups=None if account is None else [],
            start_new_session=outlives_us,
            preexec_fn=None if outlives_us else _dies_with_parent(),
            # The child holds the lock for as long as it lives, also when we are gone.
            pass_fds=(lock,),
        )
    finally:
        os.close(lock)
    return ElasticsearchServer(process, places)


@contextmanager
def running_elasticsearch(data: Path | None = None, port: int | None = None) -> Iterator[str]:
    """The URL of a healthy server: the one that ELASTICSEARCH_URL names, else one that is started and ended here.

    Without `data` it is kept in a temporary directory. To be entered in the main thread: the server ends with the
    thread that started it.
    """
    named = os.environ.get("ELASTICSEARCH_URL")
    if named:
        yield named.rstrip("/")
        return
    installation = install(say)
    with tempfile.TemporaryDirectory(prefix="elasticsearch-") as temporary:
        place = Path(temporary) if data is None else data
        Path(temporary).chmod(0o755)  # the server's user has to pass through it
        with (Path(temporary) / "server.log").open("wb") as log:
            server = start_server(installation, place, port, output=log)
            try:
                yield server.wait_until_healthy()
            except SetupProblem as problem:
                written = (Path(temporary) / "server.log").read_text(encoding="utf-8", errors="replace")
                raise SetupProblem(f"{problem} Its last words:\n{written[-3000:]}") from None
            finally:
                server.stop()


def is_healthy(url: str) -> bool:
    """Whether a server answers there and its cluster is green or yellow."""
    try:
        with _direct.open(f"{url}/_cluster/health", timeout=5) as answer:
            return json.load(answer)["status"] in {"green", "yellow"}
    except (OSError, urllib.error.URLError, ValueError, KeyError):
        return False


def recorded(data: Path) -> Record | None:
    """The server that uses this data directory now, once it has been healthy; None when there is none."""
    if not in_use(data):
        return None
    try:
        return Record(**json.loads(_record_file(data).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def in_use(data: Path) -> bool:
    """Whether a server, healthy or not, runs on this data directory. The kernel knows: pids are used again."""
    try:
        lock = os.open(data / "server.lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def say(text: str) -> None:
    """Tells the person at the terminal: on stderr, because stdout carries the URL."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _record_file(data: Path) -> Path:
    return data / "server.json"


def _address(ports: Path) -> str | None:
    """The URL from the file that the server writes when it listens; one address a line."""
    try:
        lines = ports.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    return next((f"http://{line}" for line in lines if line.startswith(f"{HOST}:")), None)


def _lock(data: Path) -> int:
    """A descriptor that holds the data directory's lock. A server that is just being stopped is waited for."""
    lock = os.open(data / "server.lock", os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _STOPPED_WITHIN_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise SetupProblem(
                    f"Another Elasticsearch runs on {data}: stop it (python -m deploy.elasticsearch stop --data "
                    f"{data}) or choose another --data; nothing was started."
                ) from None
            time.sleep(_POLL_S)
        else:
            _record_file(data).unlink(missing_ok=True)
            return lock


def _dies_with_parent() -> Callable[[], None] | None:
    """What the child does before exec, so that the kernel ends it when we are killed; None where there is no way."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here: a forked child must not
    parent = os.getpid()
    PR_SET_PDEATHSIG = 1  # linux/prctl.h

    def before_exec() -> None:
        # After the change of user, which would clear it: subprocess calls preexec_fn last.
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # we died in between
            os._exit(1)

    return before_exec
