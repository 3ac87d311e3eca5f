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
from deploy.local import supervision
from deploy.local.choices import ROOT, Choices, choose, taken
from deploy.local.footprint import footprints, table, write
from deploy.local.problem import StackProblem
from deploy.local.readiness import wait_until_ready

UP = ROOT / ".data" / "up"
DEMO = ROOT / ".data" / "demo"


def say(text: str) -> None:
    """One line to the person at the terminal."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def evaluator(choices: Choices, *arguments: str) -> int:
    """Runs the evaluator's command line against this stack; its exit status."""
    command = [sys.executable, "-m", "evaluator", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **choices.environment()}, check=False).returncode


def launch(choices: Choices) -> None:
    """Starts everything and waits until it is ready; on failure nothing is left running."""
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
    except BaseException:
        supervision.stop(choices.directory)
        raise


def up() -> int:
    """Starts the stack, or finds that it runs; serves the demo's collection; returns when it can be searched."""
    with alone(UP, "Another `make up` is at work in this checkout: wait until it has ended."):
        choices = choose(os.environ, UP, own_ports=False)
        record = UP / "chosen.json"
        if supervision.pid(UP) is not None:
            if record.read_text() != choices.chosen:
                raise StackProblem("The stack is up with other choices of engines or ports: `make down` first.")
            say("The stack is up already (`make down` ends it).")
            return 0
        launch(choices)
        record.write_text(choices.chosen)
        if evaluator(choices, "ingest", "--collection", "demo"):
            supervision.stop(UP)
            raise StackProblem("The demo's collection could not be loaded (see above); the stack was stopped.")
    say(f"Ready: {choices.url('gateway')} serves the collection `demo`. Logs: make logs. End: make down.")
    return 0


def down() -> int:
    """Ends the stack; what it serves stays on disk."""
    say("The stack has ended; its data stays." if supervision.stop(UP) else "The stack is not up.")
    return 0


def logs() -> int:
    """Follows the logs of all processes."""
    files = sorted(str(file) for file in (UP / "logs").glob("*.log"))
    if not files:
        raise StackProblem("There are no logs yet: `make up` starts the stack.")
    os.execvp("tail", ["tail", "-n", "20", "-F", *files])


def demo() -> int:
    """Starts a stack of its own, runs the evaluator's demo on it, and ends it whatever happens."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds through `finally`
    with alone(DEMO, "Another `make demo` runs in this checkout: wait until it has ended."):
        supervision.stop(DEMO)  # of a demo that was killed
        choices = choose(os.environ, DEMO, own_ports=True)
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
        newest = ROOT / ".runs" / "latest"
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
