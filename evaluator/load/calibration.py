"""Measures how fast this machine is, before and after a load, by a stub with fixed work per request.

Two runs of a load are compared by it (compared.py). One request is in flight at a time, so no time is that of a queue.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from evaluator.errors import EvaluationError
from evaluator.load.calibration_stub import WORK
from evaluator.load.figures import LoadPercentiles, load_percentiles
from evaluator.load.generator_task import GeneratorTask
from evaluator.load.generators import run_generators
from evaluator.load.load_loop import SendRecord
from evaluator.machine.machine_conditions import MachineConditions, conditions_between, read_conditions
from services.contracts.base import Wire

WARMUP_S = 0.5  # of the same requests, not counted: the first ones open the connection
TIMEOUT_S = 60.0  # of a request of milliseconds: reached where the machine stands still


class CalibrationReading(Wire):
    """Times of the stub at one end of a load, and what the machine did meanwhile."""

    service_ms: LoadPercentiles  # from sending to the last byte
    conditions: MachineConditions


class Calibration(Wire):
    """The speed of the machine around a load. Comparable only with one of the same `work`."""

    work: str  # of a request
    before: CalibrationReading
    after: CalibrationReading


Calibrate = Callable[[], Awaitable[CalibrationReading | None]]


def calibration_of(before: CalibrationReading | None, after: CalibrationReading | None) -> Calibration | None:
    """Returns the two readings together; None where none were asked for."""
    return None if before is None or after is None else Calibration(work=WORK, before=before, after=after)


@asynccontextmanager
async def calibrating(seconds: float, measured: Callable[[], Collection[int] | None]) -> AsyncIterator[Calibrate]:
    """Runs the stub; yields what takes a reading of so many seconds, or None where they are 0.

    `measured` names the processes of the system under test now. Raises EvaluationError where the stub does not answer.
    """

    async def nothing() -> None:
        return None

    if not seconds:
        yield nothing
        return
    command = (sys.executable, "-m", "evaluator.load.calibration_stub")
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    try:
        assert process.stdout is not None  # PIPE
        port = (await process.stdout.readline()).decode().strip()
        if not port:
            raise EvaluationError(f"the calibration stub ended with status {await process.wait()} before it listened")

        async def read() -> CalibrationReading:
            return await _reading(f"http://127.0.0.1:{port}/", seconds, measured())

        yield read
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _reading(url: str, seconds: float, measured: Collection[int] | None) -> CalibrationReading:
    task = GeneratorTask(
        loop="closed",
        url=url,
        headers={},
        bodies=(b"",),
        picks=(0,),
        planned_s=(),
        in_flight=1,
        seconds=WARMUP_S + seconds,
        timeout_s=TIMEOUT_S,
    )
    before = read_conditions(measured)
    (result,) = await run_generators([task], "calibration (stub, not your stack)")
    conditions = conditions_between(before, read_conditions(measured))
    return CalibrationReading(service_ms=load_percentiles(service_times_ms(result.records)), conditions=conditions)


def service_times_ms(records: Sequence[SendRecord]) -> list[float]:
    """Returns the times of the requests after the warm-up. Raises EvaluationError where one was not answered."""
    times = []
    for record in records:
        if record.sent_s is None or record.reply is None or record.reply.status != 200:
            raise EvaluationError("the calibration stub did not answer every request; run the load again")
        if record.sent_s >= WARMUP_S:
            times.append((record.done_s - record.sent_s) * 1000)
    return times
