"""The command line behind `make up`, `make down`, `make logs` and `make demo`."""

import argparse
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.elasticsearch.install import install
from deploy.elasticsearch.problem import SetupProblem
from deploy.local import settings_digest, supervision
from deploy.local.checks import expect_startable, left_in, unknown
from deploy.local.choices import OWN_BACKENDS, ROOT, Choices, choose
from deploy.local.footprint import footprints, table, write
from deploy.local.ports import remember, taken
from deploy.local.problem import StackProblem
from deploy.local.readiness import wait_for_backends, wait_until_ready
from deploy.local.running_stack import lacking, reread_pipelines
from deploy.local.stacks import DEMO, Stack, asked_for, others_up


def say(text: str) -> None:
    """One line to the person at the terminal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def evaluator(choices: Choices, *arguments: str) -> int:
    """Runs the evaluator's command line against this stack; its exit status."""
    command = [sys.executable, "-m", "evaluator", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **choices.environment()}, check=False).returncode


def launch(choices: Choices) -> None:
    """Checks everything, starts it and waits until it is ready; on failure nothing is left running."""
    expect_startable({**os.environ, **choices.environment()}, choices.ports)
    busy = [f"{process} ({port})" for process, port in choices.ports.items() if taken(port)]
    if busy:
        names = " and ".join(name.split(" ")[0].upper() + "_PORT" for name in busy)
        raise StackProblem(f"The port of {', '.join(busy)} is in use: end what listens there, or set {names}.")
    if choices.starts_elasticsearch:
        install(say)
    # What an earlier run of the supervisor gave up on is no news of this one.
    (choices.directory / "logs" / "supervisord.log").unlink(missing_ok=True)
    say(f"Starting {', '.join(name for name, _ in supervision.processes(choices))} ...")
    try:
        supervision.start(choices, os.environ)
        wait_until_ready(choices, say)
        wait_for_backends(choices, say)
    except BaseException:
        supervision.stop(choices.directory)
        raise


def tell_remarks(choices: Choices) -> None:
    """Says what is not simply passed on, before anything is started or found to run."""
    for line in remarks(choices):
        say(line)


def remarks(choices: Choices) -> Iterator[str]:
    """What the environment asks for that is not simply passed on, a line each."""
    for name, backend in choices.backends.items():
        instead = "" if name not in OWN_BACKENDS else f", so no {name} service is started here"
        yield f"GATEWAY_BACKENDS: {name} ({backend.family}) is at {backend.url}{instead}."
    if choices.unused:
        yield f"A demo has ports and directories of its own; not used: {', '.join(choices.unused)}."
    for name in unknown(os.environ):
        yield f"{name} is no setting (all of them are in .env.example); not used."
    if unread := left_in(ROOT / ".env", os.environ):
        into = "`set -a; . ./.env; set +a` puts it into the environment (JSON in single quotes)"
        yield f".env is not read, so not used: {', '.join(unread)}. {into}."


def up() -> int:
    """Starts a stack, or finds that it runs; serves the demo's collection; returns when it can be searched."""
    stack = asked_for(os.environ)
    with alone(
        stack.directory, f"Another `{stack.command('up')}` is at work in this checkout: wait until it has ended."
    ):
        choices = choose(os.environ, stack.directory, own_ports=False, name=stack.name)
        tell_remarks(choices)
        if supervision.pid(stack.directory) is not None:
            settings_digest.expect_same(choices, os.environ, stack)
            say(f"The stack is up already (`{stack.command('down')}` ends it). {reread_pipelines(choices)}")
        else:
            start(choices, stack)
            say(f"Ready: {choices.url('gateway')} serves the collection `demo`.")
        for line in lacking(choices, os.environ):
            say(line)
    say(f"Logs: {stack.command('logs')}. End: {stack.command('down')}.")
    return 0


def start(choices: Choices, stack: Stack) -> None:
    """Starts a stack and loads the demo's collection; on failure nothing is left running."""
    launch(choices)
    settings_digest.write(choices, os.environ)
    remember(stack.directory, choices.ports)
    if evaluator(choices, "ingest", "--collection", "demo"):
        supervision.stop(stack.directory)
        raise StackProblem("The demo's collection could not be loaded (see above); the stack was stopped.")


def down() -> int:
    """Ends a stack; what it serves stays on disk."""
    stack = asked_for(os.environ)
    say("The stack has ended; its data stays." if supervision.stop(stack.directory) else "The stack is not up.")
    for other in others_up(stack):
        say(f"Still up: `{other.command('down')}` ends it.")
    return 0


def logs() -> int:
    """Follows the logs of all processes."""
    stack = asked_for(os.environ)
    files = sorted(str(file) for file in (stack.directory / "logs").glob("*.log"))
    if not files:
        raise StackProblem(f"There are no logs yet: `{stack.command('up')}` starts the stack.")
    os.execvp("tail", ["tail", "-n", "20", "-F", *files])


def demo() -> int:
    """Starts a stack of its own, runs the evaluator's demo on it, and ends it whatever happens."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds through `finally`
    with alone(DEMO, "Another `make demo` runs in this checkout: wait until it has ended."):
        supervision.stop(DEMO)  # of a demo that was killed
        choices = choose(os.environ, DEMO, own_ports=True)
        tell_remarks(choices)
        try:
            launch(choices)
            status = evaluator(choices, "demo")
            tell_footprints(choices)
            return status
        finally:
            supervision.stop(DEMO)


def tell_footprints(choices: Choices) -> None:
    """Prints what each process has cost, and leaves it beside the newest report."""
    supervisor = supervision.pid(choices.directory)
    found = footprints(supervisor, list(supervision.processes(choices))) if supervisor else []
    if found:
        sys.stdout.write(f"\n{table(found)}\n")
        newest = ROOT / (os.environ.get("EVALUATOR_RUNS") or ".runs") / "latest"
        if newest.is_dir():
            write(found, newest / "processes.json")


@contextmanager
def alone(directory: Path, otherwise: str) -> Iterator[None]:
    """Holds a directory for this process. Raises StackProblem(otherwise) when another one has it."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StackProblem(otherwise) from None
        yield


def main() -> int:
    parser = argparse.ArgumentParser(prog=".venv/bin/python -m deploy.local", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "logs", "demo"))
    try:
        match parser.parse_args().command:
            case "up":
                return up()
            case "down":
                return down()
            case "logs":
                return logs()
            case _:
                return demo()
    except (StackProblem, SetupProblem) as problem:
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
