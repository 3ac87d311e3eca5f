"""A generator sends what its task says, and its CPU is told over all slices."""

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

from fastapi import FastAPI, Request, Response

from evaluator.load.sending.generator import READY, TASK, generate
from evaluator.load.sending.load_loop import GeneratorTask
from services.chassis.requests.telemetry import assign_request_id
from tests.support.served import served

# Nothing listens there.
EMPTY = GeneratorTask("open", "http://127.0.0.1:9/", {}, (), (), (), 2_000, 0.0, 1.0)
IMPORTS = "import os, resource; from evaluator.load.sending.generator import take_real_time_priority"
ASKS = "print(take_real_time_priority(), os.sched_getscheduler(0) == os.SCHED_RR)"


async def test_an_open_loop_without_requests_starts_no_callers_and_uses_no_cpu() -> None:
    result = await generate(EMPTY, time.monotonic(), real_time=False)
    assert (result.records, result.cpu_s, result.seconds) == ([], 0.0, 0.0)


async def test_a_request_without_an_answer_has_the_id_that_the_services_log() -> None:
    service, seen = FastAPI(), list[str]()

    @service.post("/")
    async def fail(request: Request) -> Response:
        seen.append(request.headers["x-request-id"])
        return Response(status_code=503)

    with served(service) as url:
        task = GeneratorTask("open", f"{url}/", {}, (b"{}",), (0, 0), (0.0, 0.01), 10, 0.0, 5.0)
        result = await generate(task, time.monotonic(), real_time=False)
    assert sorted(task.request_id(record.number) for record in result.records) == sorted(seen)
    assert len(set(seen)) == 2
    assert assign_request_id(seen[0]) == seen[0]


async def test_answers_that_are_faults_open_no_new_connections() -> None:
    service, ports = FastAPI(), set[int]()

    @service.post("/")
    async def fail(request: Request) -> Response:
        assert request.client is not None
        ports.add(request.client.port)
        return Response(status_code=503)

    with served(service) as url:
        task = GeneratorTask("closed", f"{url}/", {}, (b"{}",), (0,), (), 1, 0.2, 5.0)
        result = await generate(task, time.monotonic(), real_time=False)
    assert len(result.records) > 1
    assert len(ports) == 1


def test_the_answer_is_what_the_kernel_says_and_a_process_that_may_not_have_it_is_told_so() -> None:
    may_not = [
        "os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))",
        "resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))",
        *(["os.setuid(65534)"] if os.geteuid() == 0 else []),
    ]
    # A process of its own, which keeps the priority to its end.
    lines = "\n".join([IMPORTS, ASKS, *may_not, ASKS])
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    answer, of_kernel, *without = done.stdout.split()
    assert answer == of_kernel
    assert without == ["False", "False"]


def test_an_interrupted_generator_leaves_the_word_to_its_parent(tmp_path: Path) -> None:
    (tmp_path / TASK).write_bytes(pickle.dumps(EMPTY))
    command = [sys.executable, "-m", "evaluator.load.sending.generator", str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as generator:
        assert generator.stdout is not None
        assert generator.stdout.read(len(READY)) == READY
        generator.send_signal(signal.SIGINT)
        assert generator.communicate(timeout=30) == (b"", b"")
    assert generator.returncode == 0
