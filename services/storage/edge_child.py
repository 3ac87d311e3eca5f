"""Runs Edge in a child process: `python edge_child.py optimise OLD NEW PARENT` or `probe SHARD N PARENT`.

qdrant-edge-py 0.9.0 holds the GIL during its calls (1.1 s for 5,200 vectors), so optimising inside the service would
block every query, and /livez. A damaged shard or a full disk may also end the process that opens it (SIGBUS) or keep
it busy for ever. Imports nothing of the project: it is started by its path.
"""

import ctypes
import errno
import os
import shutil
import signal
import sys

import qdrant_edge

PR_SET_PDEATHSIG = 1
CHUNK = 1 << 20
# Payloads read at once.
PAGE = 1_000
# Stands for an unknown number of documents.
NOT_COUNTED = "-"
# Exit status of an optimisation that found nothing to do.
NOTHING_TO_DO = 3


def end_with(parent: int) -> None:
    """Has the kernel kill this process when its parent ends, so that it does not write to an abandoned copy."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the process that started this has ended")


def copy(old: str, new: str) -> None:
    """Copies a shard's folder as sparse files: Edge allocates 100 MB per shard, of which 40 KB are written."""
    shutil.copytree(old, new, copy_function=copy_data)


def copy_data(old: str, new: str) -> None:
    """Copies the data of a sparse file; its holes stay holes."""
    with open(old, "rb") as source, open(new, "wb") as target:
        read, write = source.fileno(), target.fileno()
        length = os.fstat(read).st_size
        os.truncate(write, length)
        end = 0
        while (start := next_data(read, end)) is not None:
            end = os.lseek(read, start, os.SEEK_HOLE)
            for at in range(start, end, CHUNK):
                os.pwrite(write, os.pread(read, min(CHUNK, end - at), at), at)


def next_data(file: int, at: int) -> int | None:
    """Returns where the next data of a file begins, or None if only a hole is left."""
    try:
        return os.lseek(file, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def optimise(old: str, new: str) -> int:
    """Copies the shard `old` to `new`, then merges and indexes all segments of the copy. Returns the exit status."""
    os.nice(10)  # the parent process answers queries meanwhile
    copy(old, new)
    shard = qdrant_edge.EdgeShard.load(new)
    changed = shard.optimize()
    shard.flush()
    shard.close()
    return 0 if changed else NOTHING_TO_DO


def probe(shard: str, documents: str) -> None:
    """Opens a shard as the service will, and reads the payload of every document: Edge opens some damaged shards
    without an error and fails at a later search. Exits with a message if a document is missing."""
    opened = qdrant_edge.EdgeShard.load(shard)
    points = whole = 0
    page = None
    while True:
        request = qdrant_edge.ScrollRequest(offset=page, limit=PAGE, with_payload=["id"], with_vector=False)
        records, page = opened.scroll(request)
        points += len(records)
        whole += sum("id" in (record.payload or {}) for record in records)
        if page is None:
            break
    opened.close()
    expected = points if documents == NOT_COUNTED else int(documents)
    if whole < points or points != expected:
        sys.exit(f"it holds {whole} of its {expected} documents.")


if __name__ == "__main__":
    *work, parent = sys.argv[1:]
    end_with(int(parent))
    match work:
        case ["optimise", old, new]:
            sys.exit(optimise(old, new))
        case ["probe", shard, documents]:
            probe(shard, documents)
        case _:
            sys.exit(f"unknown work: {work}")
