"""Locks a data directory and records the server that uses it. A lock, because pids are reused."""

import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.endpoint import Endpoint
from deploy.elasticsearch.problem import SetupProblem
from services.files.disk_writes import naming

_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class ServerRecord:
    """The server that uses a data directory; the pid is the JVM's."""

    pid: int
    endpoint: Endpoint


def lock_data_directory(data: Path, timeout_s: float) -> int:
    """Returns a descriptor that holds the directory's lock; the server inherits it and holds it while it lives.

    Waits up to `timeout_s` for a server that is stopping, then raises SetupProblem.
    """
    lock = os.open(data / "server.lock", os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + timeout_s
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


def is_locked(data: Path) -> bool:
    """Returns whether a server, healthy or not, runs on this data directory."""
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


def write_record(data: Path, record: ServerRecord) -> None:
    """Records a healthy server, readable by the current user alone: it may hold an API key."""
    where = record.endpoint
    note = {
        "pid": record.pid,
        "url": where.url,
        "ca_file": None if where.ca_file is None else str(where.ca_file),
        "api_key": where.api_key,
    }
    file = os.open(_file(data), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with naming(_file(data)), os.fdopen(file, "w", encoding="utf-8") as stream:
        json.dump(note, stream)


def read_record(data: Path) -> ServerRecord | None:
    """Returns the server that runs on this data directory, once it has been healthy; else None."""
    if not is_locked(data):
        return None
    try:
        note = json.loads(_file(data).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    ca_file = None if note["ca_file"] is None else Path(note["ca_file"])
    return ServerRecord(pid=note["pid"], endpoint=Endpoint(note["url"], ca_file, note["api_key"]))


def _file(data: Path) -> Path:
    return data / "server.json"
