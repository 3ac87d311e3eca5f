"""A process killed at any moment loses nothing that it acknowledged. On both Edge engines."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from tests.support.edge_subjects import numbered, opened

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


WRITER = """
import asyncio, random, sys
from pathlib import Path
from tests.support.edge_subjects import SUBJECTS, numbered

async def write(kind, directory, seed):
    draw = random.Random(seed)
    subject = SUBJECTS[kind](Path(directory))
    number = 1
    print("begin c@1", flush=True)
    await subject.begin("c@1")
    print("done", flush=True)
    while True:
        generation = f"c@{number}"
        match draw.choices(["put", "delete", "finish", "publish", "next"], [12, 2, 2, 1, 1])[0]:
            case "put":
                first = draw.randrange(3_000)
                line = f"put {generation} {first} {first + 100}"
                work = subject.put(generation, numbered(first, first + 100))
            case "delete":
                first = draw.randrange(3_000)
                line = f"delete {generation} {first} {first + 300}"
                work = subject.delete(generation, numbered(first, first + 300))
            case "finish":
                line, work = f"finish {generation}", subject.finish(generation)
            case "publish":
                line, work = f"publish {generation}", subject.publish(generation)
            case _:
                if number > 1:
                    print(f"drop c@{number - 1}", flush=True)
                    await subject.drop(f"c@{number - 1}")
                    print("done", flush=True)
                number += 1
                line, work = f"begin c@{number}", subject.begin(f"c@{number}")
        print(line, flush=True)
        await work
        print("done", flush=True)

asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.parametrize("seed", range(2))
async def test_a_process_killed_at_a_random_moment_loses_nothing_that_it_acknowledged(
    kind: str, directory: Path, seed: int
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, kind, str(directory), str(seed), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    lines = [(await process.stdout.readline()).decode().split()]
    await asyncio.sleep(random.Random(seed).uniform(0.2, 2.0))
    process.kill()
    lines += [line.decode().split() async for line in process.stdout]
    await process.wait()

    held: dict[str, set[str]] = {}
    published: set[str] = set()
    # The last request, if not acknowledged, may have been done, not done, or partly done.
    doubted: set[str] = set()
    open_request: list[str] = []
    for line in lines:
        if line != ["done"]:
            open_request = line
            continue
        match open_request:
            case ["begin", generation]:
                held[generation] = set()
            case ["put", generation, first, after]:
                held[generation] |= set(numbered(int(first), int(after)))
            case ["delete", generation, first, after]:
                held[generation] -= set(numbered(int(first), int(after)))
            case ["publish", generation]:
                published = {generation}
            case ["drop", generation]:
                del held[generation]
                published -= {generation}
        open_request = []
    match open_request:
        case ["put" | "delete", _, first, after]:
            doubted = set(numbered(int(first), int(after)))
        case ["begin" | "drop" | "publish", generation]:
            doubted = {generation}

    async with opened(kind, directory) as subject:
        assert await subject.unusable() == ()
        assert set(await subject.generations()) - doubted == set(held) - doubted
        if open_request[:1] != ["publish"]:
            assert await subject.published() - doubted == published - doubted
        for generation in set(held) - doubted:
            there = await subject.held(generation, numbered(0, 1_700)) | await subject.held(
                generation, numbered(1_700, 3_400)
            )
            assert there - doubted == held[generation] - doubted, (generation, open_request)
            await subject.finish(generation)
