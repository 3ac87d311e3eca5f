"""Prints results to standard output, and the progress of a step: a bar on a terminal, elsewhere a line every 15 s.

A listener learns of the progress too: the service shows it on its pages.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

from pydantic import FiniteFloat
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from evaluator.printable import shown
from services.contracts.base import Count, Wire


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
