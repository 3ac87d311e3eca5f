"""When memory is given back: after the last work, and not while any goes on."""

import asyncio
import platform
import subprocess
import sys

import onnx
import pytest

from services.inference.memory import WhenIdle, trim
from services.inference.profiles import GRAPH, ROOT
from services.reranker.training.quantise import with_plain_weights
from tests.models import CROSS_ENCODER, fetched

# In a process of its own: what glibc does by itself depends on what was freed before.
FAULTS = """
import resource, sys
from pathlib import Path
from services.inference.profiles import MODELS_FILE, load_cross_encoder
from services.inference.digests import file_sha256
from services.inference.session import Session
from services.inference.tokens import Row

folder = Path(sys.argv[1])
profile = load_cross_encoder(MODELS_FILE, sys.argv[2])
files = {name: file_sha256(folder / name) for name in profile.files}
session = Session(profile.model_copy(update={"files": files, "precision": "fp32", "session_entries": {}}), folder)
rows = [Row([101, *range(1000, 1080), 102], [0] * 82)] * 6
for _ in range(3):
    session.run(rows)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    session.run(rows)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) // 5)
"""


async def test_it_acts_once_after_the_last_work() -> None:
    acted: list[int] = []
    idle = WhenIdle(lambda: acted.append(1), idle_s=0.02)
    for _ in range(3):
        with idle:
            await asyncio.sleep(0)
    assert acted == []
    await asyncio.sleep(0.2)
    assert acted == [1]


async def test_it_does_not_act_while_work_goes_on() -> None:
    acted: list[int] = []
    idle = WhenIdle(lambda: acted.append(1), idle_s=0.02)
    with idle:
        with idle:
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert acted == []
    await asyncio.sleep(0.2)
    assert acted == [1]


async def test_it_does_not_act_after_it_is_closed() -> None:
    acted: list[int] = []
    idle = WhenIdle(lambda: acted.append(1), idle_s=0.02)
    with idle:
        pass
    idle.close()
    await asyncio.sleep(0.1)
    assert acted == []


def test_trimming_can_be_called_on_any_system() -> None:
    trim()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc, whose ways this is about")
def test_a_batch_finds_the_memory_that_the_one_before_it_freed(tmp_path) -> None:
    """Without `keep` there were 2,700 page faults a batch and more."""
    for file in fetched(CROSS_ENCODER).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    onnx.save(with_plain_weights(onnx.load(fetched(CROSS_ENCODER) / GRAPH)), tmp_path / GRAPH)
    command = [sys.executable, "-c", FAULTS, str(tmp_path), CROSS_ENCODER]
    faults = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert int(faults) < 300
