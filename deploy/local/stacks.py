"""Names the stacks of one checkout: the default one, those that STACK names, and the demo's."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local import supervision
from deploy.local.choices import ROOT
from deploy.local.problem import StackProblem

DATA = ROOT / ".data"
DEMO = DATA / "demo"
# Used in folder names and in names on servers.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,15}")


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack that `make up` starts, by name; empty for the default one."""

    name: str

    @property
    def directory(self) -> Path:
        """Directory of its data, logs and settings."""
        return DATA / (f"up-{self.name}" if self.name else "up")

    def command(self, target: str) -> str:
        """Returns the `make` command for this stack."""
        return f"make {target} STACK={self.name}" if self.name else f"make {target}"


def requested_stack(environment: Mapping[str, str]) -> Stack:
    """Returns the stack that STACK names. Raises StackProblem."""
    name = environment.get("STACK", "")
    if name and not _NAME.fullmatch(name):
        raise StackProblem(f"STACK={name} is no name: take up to 16 of lower-case letters, digits, - and _.")
    return Stack(name)


def other_running_stacks(stack: Stack) -> Iterator[Stack]:
    """Yields the other running stacks of this checkout."""
    for directory in sorted(DATA.glob("up*")):
        other = Stack(directory.name.removeprefix("up").removeprefix("-"))
        if other != stack and other.directory == directory and supervision.pid(directory) is not None:
            yield other
