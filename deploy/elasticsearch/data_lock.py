"""A data directory's lock and the note of who uses it. The kernel knows who lives: pids are used again."""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.endpoint import Endpoint
from deploy.elasticsearch.problem import SetupProblem

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Record:
    """The server that uses a data directory: the pid is Java's own."""

    pid: int
    endpoint: Endpoint


def claim(data: Path, patience_s: float) -> int:
    """A descriptor that holds the directory's lock, for the server to inherit: it is held as long as that lives.

    A server that is just being stopped is waited for; past `patience_s` SetupProblem is raised.
    """
    lock = os.open(data / "server.lock", os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                os.close(lock)
                raise SetupProblem(
                    f"Another Elasticsearch runs on {data}: stop it (.venv/bin/python -m deploy.elasticsearch stop "
                    f"--data {data}) or choose another --data; nothing was started."
                ) from None
            time.sleep(_POLL_S)
        else:
            _file(data).unlink(missing_ok=True)
            return lock


def is_claimed(data: Path) -> bool:
    """Whether a server, healthy or not, runs on this data directory."""
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


def write_record(data: Path, record: Record) -> None:
    """Notes a healthy server. Only we can read it: it may hold an API key."""
    where = record.endpoint
    note = {
        "pid": record.pid,
        "url": where.url,
        "ca_file": None if where.ca_file is None else str(where.ca_file),
        "api_key": where.api_key,
    }
    file = os.open(_file(data), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        json.dump(note, stream)


def read_record(data: Path) -> Record | None:
    """The server that runs on this data directory now, once it has been healthy; None when there is none."""
    if not is_claimed(data):
        return None
    try:
        note = json.loads(_file(data).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    ca_file = None if note["ca_file"] is None else Path(note["ca_file"])
    return Record(pid=note["pid"], endpoint=Endpoint(note["url"], ca_file, note["api_key"]))


def _file(data: Path) -> Path:
    return data / "server.json"
