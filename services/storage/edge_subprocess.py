"""Starts Edge in child processes (edge_child.py) and interprets their exit status."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from services.chassis.errors import InsufficientStorage, UpstreamFailed
from services.storage import edge_child
from services.storage.edge_disk_space import MB, disk_usage
from services.storage.edge_errors import reports_full_disk

# A shard of 10,000 documents (42 MB) opens within 0.9 s. One that is not open after 30 s plus 0.5 s per MB never
# will be: damaged postings kept one busy for as long as it was observed.
OPEN_S = 30.0
OPEN_S_PER_MB = 0.5
PROBES_AT_ONCE = 2


async def optimise(old: Path, new: Path) -> bool:
    """Makes `new` an optimised copy of the shard `old`. Returns False if there was nothing to do.

    Raises UpstreamFailed, or InsufficientStorage if the disk was full. Kills the child when the caller is cancelled.
    """
    process = await asyncio.create_subprocess_exec(*_command("optimise", old, new), stderr=asyncio.subprocess.PIPE)
    try:
        _, complaint = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode in (0, edge_child.NOTHING_TO_DO):
        return process.returncode == 0
    reason = _reason(process.returncode or 0, complaint)
    if process.returncode == -signal.SIGBUS or reports_full_disk(reason):
        raise InsufficientStorage(f"The disk became full while the index was built ({reason}). Free some of it.")
    raise UpstreamFailed(f"The index could not be built: {reason}")


def find_damage(shards: Mapping[Path, int | None]) -> dict[Path, str]:
    """Opens shards in child processes and returns why some cannot be used (blocking). `shards` maps each to its number
    of documents, or to None if that is unknown."""
    with ThreadPoolExecutor(PROBES_AT_ONCE) as threads:
        reasons = threads.map(_probe, shards.keys(), shards.values())
        return {shard: reason for shard, reason in zip(shards, reasons, strict=True) if reason}


def _probe(shard: Path, documents: int | None) -> str | None:
    timeout_s = OPEN_S + OPEN_S_PER_MB * disk_usage(shard) / MB
    try:
        expected = edge_child.NOT_COUNTED if documents is None else str(documents)
        ended = subprocess.run(_command("probe", shard, expected), capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return f"it was not open after {timeout_s:.0f} s."
    return _reason(ended.returncode, ended.stderr) if ended.returncode else None


def _command(*work: str | Path) -> list[str]:
    # -I: no module of the program's folder is imported by accident.
    return [sys.executable, "-I", edge_child.__file__, *map(str, work), str(os.getpid())]


def _reason(status: int, complaint: bytes) -> str:
    if status == -signal.SIGBUS:
        return "SIGBUS: its files are shorter than they should be, or the disk is full."
    if status < 0:
        return f"the process that opened it was ended by {signal.Signals(-status).name}."
    lines = complaint.decode(errors="replace").strip() or "no reason given"
    return lines.splitlines()[-1][:300]
