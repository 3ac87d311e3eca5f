"""Prints results to standard output, and the progress of a step: a bar on a terminal, elsewhere a line every 15 s."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[[int], None]
ShownProgress = Callable[[str, int, str], AbstractContextManager[Advance]]  # as `progress`
# Few enough lines for a log, often enough to show that the step runs.
PLAIN_EVERY_S = 15.0

console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """Prints one line to standard error: standard output is for results."""
    console.print(message, markup=False)


def show(result: str) -> None:
    """Prints a result to standard output. Where the reader has closed the pipe (`head`), the rest is dropped.

    The exit status is then the command's own, so that `compare … | head` stays a gate.
    """
    try:
        sys.stdout.write(f"{result}\n")
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
def progress(label: str, total: int, unit: str) -> Iterator[Advance]:
    """Yields a function to call with the number of units just done."""
    if console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
                   TimeElapsedColumn(), TimeRemainingColumn())  # fmt: skip
        with Progress(*columns, console=console) as bar:
            task = bar.add_task(label, total=total)
            yield lambda count: bar.advance(task, count)
        return
    done, started = 0, time.monotonic()
    told = started

    def advance(count: int) -> None:
        nonlocal done, told
        done += count
        if time.monotonic() - told >= PLAIN_EVERY_S and done < total:
            told = time.monotonic()
            say(f"{label}: {done} of {total} {unit}, {told - started:.0f} s")

    say(f"{label}: {total} {unit} ...")
    yield advance
    say(f"{label}: {done} of {total} {unit} done in {time.monotonic() - started:.1f} s")
