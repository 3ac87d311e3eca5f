"""Drives one point of load (a pipeline at a rate, or so many requests in flight) and reads the answers.

Starts a process for each generator, gives all a common start time, and reads the answers after they have ended.
"""

import asyncio
import math
import pickle
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from evaluator.errors import EvaluationError
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.sending.generator import READY, RESULT, TASK
from evaluator.load.sending.load_loop import GeneratorResult, GeneratorTask
from evaluator.load.sending.samples import LoadSample, disturbed_share, read_sample
from evaluator.load.sending.traffic import LoadTarget, PlannedRequest, closed_requests, open_requests
from evaluator.machine.machine_conditions import ConditionsMeter, MachineConditions, metered
from evaluator.machine.process_costs import ProcessCost
from evaluator.progress import in_thread
from services.files.disk_writes import naming

# A late answer is still read for so long, so that it is known how late it was.
GRACE_MS = 2_000
# At 1,000 requests per second one generator used 0.34 to 0.39 of a core (shared x86-64 machine of two cores).
RATE_A_GENERATOR = 800
# Within it every generator reads the start time.
HEAD_START_S = 0.2


class GeneratorUse(NamedTuple):
    """CPU seconds that a generator used, and the seconds in which it sent: 0 where nothing was planned."""

    cpu_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class LoadedPoint:
    """The outcome of one drive: every request in planned order, and what happened on the machine meanwhile."""

    samples: tuple[LoadSample, ...]
    conditions: MachineConditions  # meanwhile, with the start of the generators
    generators: tuple[GeneratorUse, ...]
    real_time: bool  # whether every generator ran with real-time priority
    began: datetime
    seconds: float  # from the first planned send time to the last answer
    # Of named processes meanwhile, all requests together.
    costs: Mapping[str, ProcessCost] = field(default_factory=dict)
    began_s: float = 0.0  # `began` by time.monotonic: seconds between two slices, whatever was done to the clock

    @property
    def disturbed(self) -> float:
        """The share of the measured requests during which others took CPU."""
        return disturbed_share([sample for sample in self.samples if sample.phase == "measured"])


async def run_point(
    target: LoadTarget,
    pipeline: str,
    rate: float,
    seconds: float,
    plan: LoadPlan,
    *,
    seed: int,
    part: str = "",
    warmup_seconds: float = 0.0,
    measured: Collection[int] | None = (),
) -> LoadedPoint:
    """Sends one pipeline's requests at one rate, open loop, and returns them with the conditions of the machine.

    The first `warmup_seconds` come before the `seconds`, at the same rate, and their samples are labelled. `plan` gives
    arrival process, draw, cap and generators. `part`: of all that is drawn from the seed. `measured`: processes of the
    system under test on this machine (evaluator/machine/machine_conditions.py). Raises EvaluationError where a
    generator ends without a result.
    """
    requests = open_requests(target, pipeline, rate, warmup_seconds + seconds, plan, seed, part)
    return await drive(target, requests, plan, rate, warmup_seconds=warmup_seconds, measured=measured)


async def drive(
    target: LoadTarget,
    requests: Sequence[PlannedRequest],
    plan: LoadPlan,
    rate: float,
    *,
    warmup_seconds: float = 0.0,
    measured: Collection[int] | None = (),
) -> LoadedPoint:
    """Sends planned requests, open loop. `rate`: decides how many generators there are."""
    count = min(plan.generators or max(1, math.ceil(rate / RATE_A_GENERATOR)), max(1, len(requests)))
    # Round robin: each generator gets the same rate, and the cap is shared.
    shares = [requests[number::count] for number in range(count)]
    caps = _even_parts(plan.most_in_flight, count)
    tasks = [generator_task(target, share, cap) for share, cap in zip(shares, caps, strict=True)]
    return await _loaded(target, shares, tasks, warmup_seconds, measured)


async def run_closed(
    target: LoadTarget,
    pipeline: str,
    in_flight: int,
    seconds: float,
    plan: LoadPlan,
    *,
    seed: int,
    part: str = "",
    warmup_seconds: float = 0.0,
    measured: Collection[int] | None = (),
) -> LoadedPoint:
    """Keeps so many requests of one pipeline in flight. Shows the capacity; its times show nothing of a tail.

    Parameters and errors are those of `run_point`.
    """
    count = min(plan.generators or 1, in_flight)
    shares = [closed_requests(target, pipeline, plan, seed, f"{part} {number}") for number in range(count)]
    tasks = [
        generator_task(target, share, flight, closed_seconds=warmup_seconds + seconds)
        for share, flight in zip(shares, _even_parts(in_flight, count), strict=True)
    ]
    return await _loaded(target, shares, tasks, warmup_seconds, measured)


def _even_parts(whole: int, count: int) -> list[int]:
    """Returns `count` numbers that add up to `whole` and differ by 1 at most."""
    return [whole // count + (number < whole % count) for number in range(count)]


def generator_task(
    target: LoadTarget, requests: Sequence[PlannedRequest], in_flight: int, closed_seconds: float | None = None
) -> GeneratorTask:
    """Returns what a generator sends: these requests, with the headers and the timeout of every request."""
    searches = list(dict.fromkeys((request.pipeline, request.query) for request in requests))
    number_of = {search: number for number, search in enumerate(searches)}
    headers = {"content-type": "application/json", "x-deadline-ms": str(target.deadline_ms)}
    return GeneratorTask(
        loop="open" if closed_seconds is None else "closed",
        url=target.url,
        opens_gateway=True,
        # no-store: a cached answer would be timed instead of the search.
        headers=headers if target.caches else headers | {"cache-control": "no-store"},
        bodies=tuple(target.bodies[search] for search in searches),
        picks=tuple(number_of[request.pipeline, request.query] for request in requests),
        planned_s=tuple(request.at_s for request in requests) if closed_seconds is None else (),
        in_flight=in_flight,
        seconds=closed_seconds or 0.0,
        timeout_s=(target.deadline_ms + GRACE_MS) / 1000,
    )


async def run_generators(tasks: Sequence[GeneratorTask]) -> list[GeneratorResult]:
    """Runs one process a task, all from the same start, and returns their results in the order of the tasks.

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


def _result(folder: Path) -> GeneratorResult:
    result: GeneratorResult = pickle.loads((folder / RESULT).read_bytes())
    return result


async def _loaded(
    target: LoadTarget,
    shares: Sequence[Sequence[PlannedRequest]],
    tasks: Sequence[GeneratorTask],
    warmup_seconds: float,
    measured: Collection[int] | None,
) -> LoadedPoint:
    """Runs the generators, reads the conditions of the machine meanwhile, and then the answers."""
    began, began_s = datetime.now(UTC), time.monotonic()
    results, meter = await metered(run_generators(tasks), measured)
    read = await in_thread(_read, target, shares, tasks, results, meter, began, warmup_seconds)
    return replace(read, began_s=began_s)


def _read(
    target: LoadTarget,
    shares: Sequence[Sequence[PlannedRequest]],
    tasks: Sequence[GeneratorTask],
    results: Sequence[GeneratorResult],
    meter: ConditionsMeter,
    began: datetime,
    warmup_seconds: float,
) -> LoadedPoint:
    """Reads all answers, after the run: parsing them earlier would take time from the generators and the gateway."""
    closed_until_s = tasks[0].seconds if tasks[0].loop == "closed" else None
    sent = sorted(
        (
            (record, share[record.number % len(share)], task.request_id(record.number))
            for share, task, result in zip(shares, tasks, results, strict=True)
            for record in result.records
        ),
        key=lambda request: request[0].planned_s,
    )
    spans = [(begin - results[0].start_s, end - results[0].start_s) for begin, end in meter.disturbed]
    samples = tuple(
        read_sample(
            target,
            request,
            record,
            number,
            "warmup" if record.planned_s < warmup_seconds else "measured",
            None if closed_until_s is None else warmup_seconds <= record.done_s < closed_until_s,
            request_id,
        ).model_copy(
            update={"disturbed": any(begin < record.done_s and record.planned_s < end for begin, end in spans)}
        )
        for number, (record, request, request_id) in enumerate(sent)
    )
    return LoadedPoint(
        samples=samples,
        conditions=meter.conditions(),
        generators=tuple(GeneratorUse(result.cpu_s, result.seconds) for result in results),
        real_time=all(result.real_time for result in results),
        began=began,
        seconds=max((record.done_s for record, _, _ in sent), default=0.0),
    )
