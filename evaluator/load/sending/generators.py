"""Starts generator processes, gives them a common start time, and joins their results."""

import asyncio
import math
import pickle
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from evaluator.errors import EvaluationError
from evaluator.load.sending.generator_task import READY, RESULT, TASK, GeneratorResult, GeneratorTask
from evaluator.load.sending.live import LiveLoad, read_counts
from evaluator.thread_work import in_thread
from services.files.disk_writes import naming

# At 1,000 requests a second one generator used 0.34 to 0.39 of a core (shared x86-64 machine of two cores).
RATE_A_GENERATOR = 800
# Within it every generator reads the start time.
HEAD_START_S = 0.2


def generators_for(rate: float) -> int:
    """Returns how many processes a rate needs, so that each uses less than half of a core."""
    return max(1, math.ceil(rate / RATE_A_GENERATOR))


async def run_generators(tasks: Sequence[GeneratorTask], traffic: str) -> list[GeneratorResult]:
    """Runs one process a task, all from the same start, and returns their results in the order of the tasks.

    Meanwhile it reports to listeners (live.py) how `traffic` is doing.

    Raises EvaluationError where one of them ended without a result.
    """
    async with AsyncExitStack() as stack:
        folders = [Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="load-"))) for _ in tasks]
        for folder, task in zip(folders, tasks, strict=True):
            with naming(folder / TASK):
                (folder / TASK).write_bytes(pickle.dumps(task))
        processes = [await stack.enter_async_context(_started(folder)) for folder in folders]
        for process in processes:
            assert process.stdout is not None  # PIPE
            if await process.stdout.readline() != READY:
                raise EvaluationError(f"a load generator ended with status {await process.wait()} before it began")
        start_s = time.monotonic() + HEAD_START_S
        for process in processes:
            assert process.stdin is not None  # PIPE
            process.stdin.write(f"{start_s!r}\n".encode())
        live = LiveLoad(traffic, len(tasks))
        async with asyncio.TaskGroup() as group:
            for number, process in enumerate(processes):
                group.create_task(_hear(process, number, live))
        for process in processes:
            if await process.wait() != 0:
                raise EvaluationError(f"a load generator ended with status {process.returncode}: nothing was measured")
        return [await in_thread(_result, folder) for folder in folders]


@asynccontextmanager
async def _started(folder: Path) -> AsyncIterator[Process]:
    command = (sys.executable, "-m", "evaluator.load.sending.generator", str(folder))
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _hear(process: Process, number: int, live: LiveLoad) -> None:
    assert process.stdout is not None  # PIPE
    async for line in process.stdout:
        if line.endswith(b"\n"):  # else its process has ended within it
            live.add_counts(number, read_counts(line))


def _result(folder: Path) -> GeneratorResult:
    result: GeneratorResult = pickle.loads((folder / RESULT).read_bytes())
    return result
