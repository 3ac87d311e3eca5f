"""Starts one Elasticsearch as an unprivileged user, waits until it is healthy, stops it by its pid."""

import ctypes
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from deploy.elasticsearch.account import identity
from deploy.elasticsearch.configuration import (
    HOST,
    ServerDirectories,
    Setting,
    configure,
    environment,
    make_server_directories,
)
from deploy.elasticsearch.data_lock import ServerRecord, lock_data_directory, write_record
from deploy.elasticsearch.endpoint import Endpoint, is_healthy, new_api_key
from deploy.elasticsearch.install import Installation
from deploy.elasticsearch.problem import SetupProblem
from deploy.elasticsearch.secure import SETTINGS, Security, make_certificate, secure

# A node takes ten seconds on a quiet machine; tests share two cores with others.
_HEALTHY_WITHIN_S = 180.0
# It closes its indices first; after this it is killed, and recovers from its translog at the next start.
_STOPPED_WITHIN_S = 30.0
_POLL_S = 0.2
ALONE: Mapping[str, Setting] = {}
_MOST_BYTES_OF_PORTS = 4_096  # a line for each address of the host


class ElasticsearchServer:
    """Owns the process of a started server; the pid is the JVM's."""

    def __init__(
        self, process: subprocess.Popen[bytes], places: ServerDirectories, security: Security | None, nodes: int
    ) -> None:
        self._process = process
        self._places = places
        self._security = security
        self._nodes = nodes

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_healthy(self) -> Endpoint:
        """Waits for a green or yellow cluster of all nodes; returns the server's endpoint.

        Raises SetupProblem at its end or a timeout.
        """
        within_s = _HEALTHY_WITHIN_S * self._nodes
        deadline = time.monotonic() + within_s
        password = None if self._security is None else self._security.password
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise SetupProblem(
                    f"Elasticsearch ended with exit status {self._process.returncode} before it was healthy: its "
                    "output says why."
                )
            endpoint = self._listening()
            if endpoint is not None and is_healthy(endpoint, password, self._nodes):
                if password is not None:
                    endpoint = Endpoint(endpoint.url, endpoint.ca_file, new_api_key(endpoint, password))
                write_record(self._places.asked, ServerRecord(pid=self.pid, endpoint=endpoint))
                return endpoint
            time.sleep(_POLL_S)
        raise SetupProblem(f"Elasticsearch was not healthy within {within_s:.0f} s: its output says how far it came.")

    def wait(self) -> int:
        """Waits until the process ends; returns its exit status."""
        return self._process.wait()

    def stop(self) -> None:
        """Ends the process and waits for it. The server's JVM is its child and ends with it."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=_STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _listening(self) -> Endpoint | None:
        """Reads the address from the file that the server writes when it listens; None before."""
        address = next((line for line in read_ports(self._places.ports) if line.startswith(f"{HOST}:")), None)
        if address is None:
            return None
        if self._security is None:
            return Endpoint(f"http://{address}")
        return Endpoint(f"https://{address}", self._security.ca_file)


def read_ports(file: Path) -> list[str]:
    """Returns the lines of the file in which a server writes its addresses; none before it has.

    The file is in a folder of the server's user, who could put a link, a pipe or an endless file there: no link is
    followed, nothing is waited for, and little is read.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return []
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            return []
        return os.read(opened, _MOST_BYTES_OF_PORTS).decode(errors="replace").splitlines()
    finally:
        os.close(opened)


def start_server(
    installation: Installation,
    data: Path,
    *,
    port: int | None = None,
    secured: bool = False,
    output: IO[bytes] | None = None,
    detached: bool = False,
    cluster: Mapping[str, Setting] = ALONE,
    nodes: int = 1,
) -> ElasticsearchServer:
    """Starts a server on `data`, which it then uses exclusively, and returns at once.

    `port` None means any free one; `secured` means TLS and API keys; `output` None means our own; `cluster`: settings
    by which a server without TLS joins others, of which there are `nodes` in all. Unless `detached`, the kernel ends it
    when the calling thread dies, by SIGKILL too (Linux only). Raises SetupProblem when the port or the data directory
    is in use.
    """
    if port is not None:
        _require_free(port)
    places = make_server_directories(data, installation)
    lock = lock_data_directory(data, timeout_s=_STOPPED_WITHIN_S)
    try:
        security = None
        if secured:
            certificate = make_certificate(places, installation)
            configure(places, installation, port, SETTINGS, certificate)
            security = secure(places, installation, certificate)
        else:
            configure(places, installation, port, {"xpack.security.enabled": False, **cluster})
        who = identity(installation.account)
        process = subprocess.Popen(
            [str(installation.home / "bin" / "elasticsearch")],
            env=environment(places, installation),
            cwd=installation.home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            user=who.user,
            group=who.group,
            extra_groups=who.extra_groups,
            start_new_session=detached,
            preexec_fn=None if detached else _parent_death_signal(),
            pass_fds=(lock,),
        )
    finally:
        os.close(lock)
    return ElasticsearchServer(process, places, security, nodes)


def say(text: str) -> None:
    """Writes one line to stderr: stdout carries lines for a shell to evaluate."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _require_free(port: int) -> None:
    """Raises SetupProblem when the port is in use: Elasticsearch reports it only after seconds, in a stack trace."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that has just been closed is free
        try:
            trial.bind((HOST, port))
        except OSError as error:
            raise SetupProblem(
                f"Elasticsearch cannot listen on {HOST}:{port} ({error.strerror}): stop what does, or give another "
                "port; nothing was started."
            ) from error


def _parent_death_signal() -> Callable[[], None] | None:
    """Returns a preexec_fn by which the kernel ends the child when we are killed; None where unsupported."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here: a forked child must not load libraries
    parent = os.getpid()
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of linux/prctl.h

    def before_exec() -> None:
        # After the change of user, which would clear it: subprocess calls preexec_fn last.
        libc.prctl(set_parent_death_signal, signal.SIGTERM)
        if os.getppid() != parent:  # we died in between
            os._exit(1)

    return before_exec
