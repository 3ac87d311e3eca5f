"""Names the stacks of one checkout, and records with which settings each of them runs."""

import fcntl
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deploy.local.checks import public_settings, settings_in
from deploy.local.choices import ROOT, Choices
from deploy.local.problem import StackProblem
from services.files.disk_writes import write_whole
from services.files.regular_file import open_lock

DATA = ROOT / ".data"
DEMO = DATA / "demo"
CHOSEN = "chosen.json"
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
        return f"make {target} STACK={self.name}" if self.name else f"make {target}"


def requested_stack(environment: Mapping[str, str]) -> Stack:
    """Returns the stack that STACK names. Raises StackProblem."""
    name = environment.get("STACK", "")
    if name and not _NAME.fullmatch(name):
        raise StackProblem(f"STACK={name} is no name: take up to 16 of lower-case letters, digits, - and _.")
    return Stack(name)


@contextmanager
def exclusive(directory: Path, otherwise: str) -> Iterator[None]:
    """Locks a directory for this process. Raises StackProblem(otherwise) when another process holds it."""
    directory.mkdir(parents=True, exist_ok=True)
    with open_lock(directory / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackProblem(otherwise) from None
        yield


def write_digests(choices: Choices, environment: Mapping[str, str]) -> None:
    """Writes a digest of each setting except secrets, which leave no trace on disk."""
    write_whole(choices.directory / CHOSEN, json.dumps(_digests(choices, environment)))


def expect_same_settings(choices: Choices, environment: Mapping[str, str], stack: Stack) -> None:
    """Raises StackProblem naming the settings that differ from those of the running stack."""
    now = _digests(choices, environment)
    try:
        before = json.loads((choices.directory / CHOSEN).read_text(encoding="utf-8"))
        other = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    except (OSError, ValueError, AttributeError):
        other = ["those of another version"]
    if other:
        raise StackProblem(
            f"The stack is up with other choices ({', '.join(other)}): `{stack.command('down')}` first, give it "
            "the same ones again, or start a second one beside it with another STACK=name."
        )


def _digests(choices: Choices, environment: Mapping[str, str]) -> dict[str, str]:
    settings = settings_in({**environment, **choices.environment()})
    if choices.starts_elasticsearch:
        del settings["ELASTICSEARCH_URL"]  # a free port, different at each start
    public = public_settings(settings).items()
    return {name: hashlib.sha256(value.encode()).hexdigest()[:16] for name, value in public}
