"""The stacks of one checkout: the one without a name, those that STACK names, and the demo's."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.local import supervision
from deploy.local.choices import ROOT
from deploy.local.problem import StackProblem

DATA = ROOT / ".data"
DEMO = DATA / "demo"
# It becomes a folder's name and a part of names on servers.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,15}")


@dataclass(frozen=True, slots=True)
class Stack:
    """One stack that `make up` starts, by its name; empty for the one without."""

    name: str

    @property
    def directory(self) -> Path:
        """Where it keeps its data, its logs and what it is made of."""
        return DATA / (f"up-{self.name}" if self.name else "up")

    def command(self, target: str) -> str:
        """What to type for this stack."""
        return f"make {target} STACK={self.name}" if self.name else f"make {target}"


def asked_for(environment: Mapping[str, str]) -> Stack:
    """The stack that STACK names. Raises StackProblem."""
    name = environment.get("STACK", "")
    if name and not _NAME.fullmatch(name):
        raise StackProblem(f"STACK={name} is no name: take up to 16 of lower-case letters, digits, - and _.")
    return Stack(name)


def others_up(stack: Stack) -> Iterator[Stack]:
    """The other stacks of this checkout that run."""
    for directory in sorted(DATA.glob("up*")):
        other = Stack(directory.name.removeprefix("up").removeprefix("-"))
        if other != stack and other.directory == directory and supervision.pid(directory) is not None:
            yield other
