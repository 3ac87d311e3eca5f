"""Holds the outcome of a soak (table, bars, broken cases) and renders its page."""

import datetime
import platform
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.machine.environment_record import describe_machine, git_state
from tests.support.processes import ROOT


@dataclass(frozen=True, slots=True)
class Bar:
    """One promise, its measurement, and whether it held.

    `needs_cores`: a time that foreign load lengthens, so that it is meaningful only on free cores.
    """

    promise: str
    measured: str
    held: bool
    needs_cores: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of a soak. `broken` has a line for each case that broke a bar, enough to repeat it."""

    name: str
    says: str
    seed: int | None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[Bar, ...]
    broken: tuple[str, ...]

    @property
    def held(self) -> bool:
        return all(bar.held for bar in self.bars)

    @property
    def missed(self) -> list[str]:
        """The bars that did not hold, except those that need free cores: foreign load of other tests breaks them."""
        return [f"{bar.promise}: {bar.measured}" for bar in self.bars if not bar.held and not bar.needs_cores]

    def demand(self) -> None:
        """Raises AssertionError with the seed, what was missed and the first cases that broke a bar."""
        missed = self.missed
        assert not missed, "\n".join((f"soak {self.name}, seed {self.seed}", *missed, *self.broken[:20]))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def wrapped(paragraph: str) -> str:
    """Wraps a paragraph at the 120 characters that every document keeps to."""
    return textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False)


def page(outcome: Outcome, seconds: float, command: str) -> str:
    """Renders the page of a run: bars, table, broken cases, machine and command."""
    bars = [(bar.promise, bar.measured, "yes" if bar.held else "**no**") for bar in outcome.bars]
    parts = [
        f"# Soak: {outcome.name}",
        *map(wrapped, outcome.says.split("\n\n")),
        f"```bash\n{command}\n```",
        wrapped(
            f"{'' if outcome.seed is None else f'Seed {outcome.seed}, '}commit {commit()}, {machine()}, "
            f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {seconds:.0f} s."
        ),
        table(("bar", "measured", "held"), bars),
        table(outcome.columns, outcome.rows),
    ]
    if outcome.broken:
        shown = "\n".join(f"- {line}" for line in outcome.broken[:100])
        parts += ["## Cases that broke a bar", f"{len(outcome.broken)} in all.", shown]
    return "\n\n".join(parts) + "\n"


def commit() -> str:
    """The commit of this checkout, marked when its files differ from it."""
    name, changed = git_state(ROOT)
    assert name is not None, f"{ROOT} has no git history"
    return name[:10] + (" with changes" if changed else "")


def machine() -> str:
    """Cores, processor and memory, and what else decides the speed."""
    here = describe_machine()
    memory = f"{here.memory_bytes / 2**30:.0f} GiB"
    return ", ".join([f"{here.cores} cores ({here.cpu}, {platform.machine()})", memory, *here.extras])
