"""Records digests of a running stack's settings, so that a second `make up` with other settings is refused."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from deploy.local.checks import public_settings, settings_in
from deploy.local.choices import Choices
from deploy.local.problem import StackProblem
from deploy.local.stacks import Stack
from services.files.disk_writes import write_whole

FILE = "chosen.json"


def write(choices: Choices, environment: Mapping[str, str]) -> None:
    """Writes a digest of each setting except secrets, which leave no trace on disk."""
    write_whole(_file(choices), json.dumps(_digests(choices, environment)))


def expect_same(choices: Choices, environment: Mapping[str, str], stack: Stack) -> None:
    """Raises StackProblem naming the settings that differ from those of the running stack."""
    now = _digests(choices, environment)
    try:
        before = json.loads(_file(choices).read_text(encoding="utf-8"))
        other = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
    except (OSError, ValueError, AttributeError):
        other = ["those of another version"]
    if other:
        raise StackProblem(
            f"The stack is up with other choices ({', '.join(other)}): `{stack.command('down')}` first, give it "
            "the same ones again, or start a second one beside it with another STACK=name."
        )


def _file(choices: Choices) -> Path:
    return choices.directory / FILE


def _digests(choices: Choices, environment: Mapping[str, str]) -> dict[str, str]:
    settings = settings_in({**environment, **choices.environment()})
    if choices.starts_elasticsearch:
        del settings["ELASTICSEARCH_URL"]  # a free port, different at each start
    public = public_settings(settings).items()
    return {name: hashlib.sha256(value.encode()).hexdigest()[:16] for name, value in public}
