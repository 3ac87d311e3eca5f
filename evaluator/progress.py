"""Prints results to standard output, and the progress of a step: a bar on a terminal, elsewhere a line every 15 s.

A listener learns of the progress too: the service shows it on its pages. What a step computes runs in a thread.
"""

import asyncio
import contextvars
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from typing import ParamSpec, Protocol, TypeVar

from pydantic import FiniteFloat
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from services.contracts.base import Count, Wire

P = ParamSpec("P")
T = TypeVar("T")

# Controls (C0, C1), directions (Bidi_Control, UAX 9, and the deprecated U+206A to U+206F), the line and paragraph
# separators, interlinear annotations, the noncharacters that XML excludes, surrogates.
_EFFECTS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff]"
)


class Advance(Protocol):
    """Takes the number of units just done, and how many queries or requests were lost meanwhile."""

    def __call__(self, count: int, lost: int = 0, /) -> None: ...


class StepProgress(Wire):
    """How far a part of a step is. A step may have several parts, one after the other."""

    part: str  # what is being done: `Ranking`
    done: Count
    total: Count
    unit: str  # what is counted: `queries`
    lost: Count = 0  # queries or requests of this part without an answer
    seconds: FiniteFloat  # since the part began
    seconds_left: FiniteFloat | None  # at the pace so far; null: nothing is done yet


ProgressListener = Callable[[StepProgress], None]
# Ambient, as the listener of a load: nothing between a job and its steps needs to know of it.
_listener: ContextVar[ProgressListener | None] = ContextVar("progress_listener", default=None)
ShownProgress = Callable[[str, int, str], AbstractContextManager[Advance]]  # as `progress`
# Few enough lines for a log, often enough to show that the step runs.
PLAIN_EVERY_S = 15.0

console = Console(stderr=True, highlight=False, soft_wrap=True)


def shown(text: str) -> str:
    """Returns text as messages, pages and tables can print it: characters without a glyph as escapes.

    That is lone surrogates, control characters but for tab and line breaks, and those that change the direction of what
    stands behind them (U+202E): without it, an id could reorder the row of a table.
    """
    return _EFFECTS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def say(message: str) -> None:
    """Prints one line to standard error: standard output is for results."""
    console.print(shown(message), markup=False)


def show(result: str) -> None:
    """Prints a result to standard output. Where the reader has closed the pipe (`head`), the rest is dropped.

    The exit status is then the command's own, so that `compare … | head` stays a gate.
    """
    try:
        sys.stdout.write(f"{shown(result)}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in the buffer goes there


def print_at_intervals(every_s: float) -> Callable[[str], None]:
    """Returns a function that prints a line unless it has printed one less than `every_s` seconds ago."""
    last = -every_s

    def print_line(message: str) -> None:
        nonlocal last
        if time.monotonic() - last >= every_s:
            last = time.monotonic()
            say(message)

    return print_line


@contextmanager
def following(listener: ProgressListener) -> Iterator[None]:
    """Calls the listener at the beginning of each `progress` within, and after each of its advances."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Advance]:
    """Yields a function to call with the number of units just done."""
    tell = _listener.get()
    with _printed(label, total, unit) as printed:
        if tell is None:
            yield printed
            return
        done = losses = 0
        started = time.monotonic()

        def advance(count: int, lost: int = 0, /) -> None:
            nonlocal done, losses
            done, losses = done + count, losses + lost
            printed(count, lost)
            tell(step_progress(label, done, total, unit, losses, time.monotonic() - started))

        tell(step_progress(label, 0, total, unit, 0, 0.0))
        yield advance


def step_progress(part: str, done: int, total: int, unit: str, lost: int, seconds: float) -> StepProgress:
    """Returns how far a part is, with the seconds left at the pace so far."""
    left = seconds / done * max(0, total - done) if done else None
    return StepProgress(part=part, done=done, total=total, unit=unit, lost=lost, seconds=seconds, seconds_left=left)


@contextmanager
def _printed(label: str, total: int, unit: str) -> Iterator[Advance]:
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
                   TimeElapsedColumn(), TimeRemainingColumn())  # fmt: skip
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(label, total=total)
            yield lambda count, lost=0, /: bar.advance(task, count)
        return
    done, losses, started = 0, 0, time.monotonic()
    printed_at = started

    def advance(count: int, lost: int = 0, /) -> None:
        nonlocal done, losses, printed_at
        done, losses = done + count, losses + lost
        if time.monotonic() - printed_at >= PLAIN_EVERY_S and done < total:
            printed_at = time.monotonic()
            lost_part = f", {losses} lost" if losses else ""
            say(f"{label}: {done} of {total} {unit}{lost_part}, {printed_at - started:.0f} s")

    say(f"{label}: {total} {unit} ...")
    yield advance
    say(f"{label}: {done} of {total} {unit} done in {time.monotonic() - started:.1f} s")


async def in_thread(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Calls a function in a thread and returns what it does; its errors are raised here.

    A thread cannot be cancelled. So a cancelled caller waits for its end, and is cancelled then: nothing is written
    into a run's folder after the run has ended, and nothing computes beside the next measurement.
    """
    call = partial(contextvars.copy_context().run, partial(function, *given, **named))
    # A future and no task: the end of the event loop cancels tasks.
    work = asyncio.get_running_loop().run_in_executor(None, call)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        work.exception()  # read, or asyncio would log it as overlooked
        raise cancelled
    return work.result()
