"""Finds processes of this machine that a stack uses and did not start: their CPU time is the stack's, not foreign.

Sources: proc(5), and /proc/net/tcp in the kernel's documents. Recording them is left to
evaluator.machine.measured_processes.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from evaluator.machine.measured_processes import is_this_machine

PROC = Path("/proc")
LISTENING = "0A"
# How the names of programs begin that hold the port of a server elsewhere: of a container, a tunnel, a unit.
FORWARDERS = (
    "docker-proxy", "conmon", "rootlesskit", "rootlessport", "pasta", "slirp4netns",
    "kubectl", "ssh", "socat", "systemd",
)  # fmt: skip


def outside_processes(urls: Iterable[str]) -> tuple[int, ...] | None:
    """Returns the processes that listen at those of the URLs that lead to this machine.

    None: behind one of them stands a container or another user's process, and nobody knows which process works.
    """
    found: set[int] = set()
    for url in filter(is_this_machine, urls):
        here = listeners(_port(url))
        if not here or any(_name(process).startswith(FORWARDERS) for process in here):
            return None
        found.update(here)
    return tuple(sorted(found))


def listeners(port: int) -> tuple[int, ...]:
    """Returns the processes that listen on a TCP port, of those whose open files this user may see."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return ()
    folders = PROC.glob("[0-9]*")
    return tuple(int(folder.name) for folder in folders if not sockets.isdisjoint(_open_files(folder)))


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with suppress(OSError):  # not Linux, or without IPv6
            for line in (PROC / "net" / table).read_text(encoding="utf-8").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _open_files(process: Path) -> Iterator[str]:
    with suppress(OSError):  # it has ended, or is another user's
        for file in (process / "fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                yield os.readlink(file)


def _name(process: int) -> str:
    with suppress(OSError):  # it has ended
        return (PROC / str(process) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return ""


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)
