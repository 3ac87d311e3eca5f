"""What a batch frees is kept for the next one, and goes back when its thread rests."""

import platform
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from deploy.models.prepare import prepare
from services.inference.digests import file_sha256
from services.inference.memory import trim
from services.inference.profiles import CONFIG, GRAPH, MODELS_FILE, ROOT, TOKENIZER, load_cross_encoder
from tests.support.models import CROSS_ENCODER, fetched
from workshop.bench.plain_model import write_models_file
from workshop.training.quantise import with_fp32_weights

# In a process of its own: what glibc does by itself depends on what was freed before.
# The whole service but HTTP: it is the composition root that says how the process keeps memory.
FAULTS = """
import asyncio, resource, sys
from pathlib import Path
from services.chassis.deadlines import Deadline
from services.reranker.app import open_scorer
from services.reranker.settings import RerankerSettings

folder = Path(sys.argv[1])
settings = RerankerSettings(model=folder.name, models=folder.parent, threads=1, passage_cache_mb=0)
scorer, runner = open_scorer(settings, folder / "models.yaml"), asyncio.Runner()

def score():
    runner.run(scorer.score("chain", ["chain " * 78] * 6, Deadline.after_ms(60_000)))

for _ in range(3):
    score()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    score()
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 5)
runner.run(scorer.close())
"""
RESIDENT = """
import asyncio, resource, sys, threading, time
from pathlib import Path
from services.inference.memory import keep
from services.inference.profiles import load_cross_encoder
from services.inference.session import Session
from services.inference.tokens import Row
from services.inference.workers import Workers

keep()
folder = Path(sys.argv[1])
session = Session(load_cross_encoder(folder / "models.yaml", folder.name), folder)
row = Row([101, *range(1000, 1080), 102], [0] * 82)

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

barrier = threading.Barrier(2)  # each thread has its share

def work(rows):
    barrier.wait(10)
    return session.run([row] * rows)

def both(rows):
    return asyncio.run(workers.run([lambda: work(rows)] * 2))

workers = Workers(2, rest_s=1.0)
both(1)
time.sleep(2.0)
before = resident()
both(24)
print(resident() - before)
time.sleep(2.0)
print(resident() - before)
"""


def test_trimming_can_be_called_on_any_system() -> None:
    trim()


GLIBC = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the C library is not glibc, whose ways this is about"
)


@GLIBC
def test_a_batch_finds_the_memory_that_the_one_before_it_freed(tmp_path) -> None:
    """Without `keep` there were 550 page faults a batch, and 2,700 and more before anything was trimmed."""
    (faults,) = printed(FAULTS, tmp_path)
    assert faults < 300


@GLIBC
def test_what_a_burst_took_on_every_thread_goes_back_when_they_rest(tmp_path) -> None:
    """`malloc_trim` alone left the end of every thread's arena, a third of what the burst took."""
    taken, left = printed(RESIDENT, tmp_path)
    assert taken > 20 << 20
    assert left < taken / 8


def printed(script: str, folder: Path) -> list[int]:
    """What the script prints in a process of its own, with our cross-encoder in plain fp32."""
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
