"""Checks that the next batch uses freed memory again, and that idle threads return it."""

import platform
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from deploy.models.prepare import prepare
from services.inference.digests import file_sha256
from services.inference.glibc_memory import trim_memory
from services.inference.profiles import CONFIG, GRAPH, MODELS_FILE, ROOT, TOKENIZER, load_cross_encoder
from tests.support.models import CROSS_ENCODER, ENCODER, fetched
from workshop.bench.plain_model import write_models_file
from workshop.training.quantise import with_fp32_weights

# In a new process: glibc's defaults depend on what was freed before.
OPEN = """
import asyncio, resource, sys, threading, time
from pathlib import Path
from services.inference.glibc_memory import keep_freed_memory
from services.inference.profiles import load_cross_encoder
from services.inference.session import Session
from services.inference.model_tokenizer import Row

keep_freed_memory()
folder = Path(sys.argv[1])
session = Session(load_cross_encoder(folder / "models.yaml", folder.name), folder)
row = Row([101, *range(1000, 1080), 102], [0] * 82)
"""
FAULTS = """
rows = [row] * 6
for _ in range(3):
    session.run(rows)
counts = [resource.getrusage(resource.RUSAGE_SELF).ru_minflt]
for _ in range(5):
    session.run(rows)
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(min(after - before for before, after in zip(counts, counts[1:])))
"""
RESIDENT = """
from services.inference.workers import Workers

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

barrier = threading.Barrier(2)  # each thread runs one task

def work(rows):
    barrier.wait(10)
    return session.run([row] * rows)

def both(rows):
    return asyncio.run(workers.run([lambda: work(rows)] * 2))

workers = Workers(2, idle_s=1.0)
both(1)
time.sleep(2.0)
before = resident()
both(24)
taken = resident() - before
print(taken)
ends_at = time.monotonic() + 30.0  # a busy machine is late with what idle threads do after a second
while resident() - before >= taken / 8 and time.monotonic() < ends_at:
    time.sleep(0.1)
print(resident() - before)
"""

LIBC = """
import ctypes

class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")]
    _fields_ += [(name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype, libc.malloc.restype, libc.malloc.argtypes = Mallinfo2, ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
"""
# Prints how many blocks glibc has mapped before and after large allocations, in a process that opened a model.
MAPPED = """
import sys
from pathlib import Path
from services.dense.app import open_encoder
from services.dense.settings import DenseSettings
from services.reranker.app import open_scorer
from services.reranker.settings import RerankerSettings

models = Path(sys.argv[1])
{"reranker": lambda: open_scorer(RerankerSettings(models=models, threads=1)),
 "dense": lambda: open_encoder(DenseSettings(models=models, threads=1))}[sys.argv[2]]()
print(libc.mallinfo2().hblks)
for _ in range(20):  # more than is free; no page is touched
    libc.malloc(31 << 20)
print(libc.mallinfo2().hblks)
"""

ADAPTS = """
import os, sys
from pathlib import Path
from services.inference.open_model import Engine
from services.inference.profiles import MODELS_FILE, load_encoder
from services.inference.text_encoder import TextEncoder

before = dict(os.environ)
folder = Path(sys.argv[1])
encoder = TextEncoder(load_encoder(MODELS_FILE, folder.name), folder, Engine(threads=1))
assert dict(os.environ) == before
libc.free(libc.malloc(31 << 20))  # glibc now takes blocks of this size from the heap
print(libc.mallinfo2().hblks)
libc.malloc(31 << 20)
print(libc.mallinfo2().hblks)
"""


def test_trimming_works_on_any_system() -> None:
    trim_memory()


GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="tests glibc, and this C library is another")


@GLIBC
@pytest.mark.integration  # takes seconds
def test_a_batch_uses_the_memory_that_the_previous_one_freed(tmp_path) -> None:
    """Without `keep_freed_memory` each batch had 2,700 page faults and more.

    The batch with the fewest counts: a process that is paused meanwhile may fault for other reasons.
    """
    (faults,) = printed(OPEN + FAULTS, tmp_path)
    assert faults < 300


@GLIBC
@pytest.mark.integration  # takes seconds
def test_idle_threads_return_the_memory_of_a_burst(tmp_path) -> None:
    """`malloc_trim` alone kept the end of every thread's arena, a third of the burst's memory."""
    taken, left = printed(OPEN + RESIDENT, tmp_path)
    assert taken > 20 << 20
    assert left < taken / 8


@GLIBC
@pytest.mark.integration  # starts processes
@pytest.mark.parametrize("service", ["reranker", "dense"])
def test_a_service_that_opens_a_model_keeps_large_blocks(service: str) -> None:
    """By default glibc maps each block of this size separately, and unmaps it when it is freed."""
    models = {"reranker": fetched(CROSS_ENCODER), "dense": fetched(ENCODER)}[service].parent
    command = [sys.executable, "-c", LIBC + MAPPED, str(models), service]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    before, after = ended.stdout.split()
    assert after == before


@GLIBC
@pytest.mark.integration  # starts a process
def test_opening_a_model_leaves_the_options_of_the_process_alone() -> None:
    """Trimming once fixed the thresholds of a process that never asked to keep memory."""
    command = [sys.executable, "-c", LIBC + ADAPTS, str(fetched(ENCODER))]
    before, after = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    assert after == before


def printed(script: str, folder: Path) -> list[int]:
    """Runs the script in a new process with our cross-encoder in plain fp32; returns the numbers it prints."""
    for name in (CONFIG, TOKENIZER):
        (folder / name).write_bytes((fetched(CROSS_ENCODER) / name).read_bytes())
    onnx.save(with_fp32_weights(onnx.load(fetched(CROSS_ENCODER) / GRAPH)), folder / GRAPH)
    profile = load_cross_encoder(MODELS_FILE, CROSS_ENCODER)
    files = {name: file_sha256(folder / name) for name in profile.files}
    plain = {"name": folder.name, "files": files, "precision": "fp32", "session_entries": {}}
    profile = profile.model_copy(update=plain)
    prepare(profile, folder)
    write_models_file(folder / "models.yaml", profile)
    command = [sys.executable, "-c", script, str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [int(line) for line in ended.stdout.split()]
