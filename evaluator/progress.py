"""Tells a person how far a step is: a bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Advance = Callable[[int], None]
# A log that is read later wants few lines; someone who watches wants a sign of life.
PLAIN_EVERY_S = 15.0

console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    """One line for a person, on the error output: standard output is for results."""
    console.print(message, markup=False)


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Advance]:
    """Within the block, call the given function with the number of units that were just done."""
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
