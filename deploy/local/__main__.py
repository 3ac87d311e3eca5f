"""Runs the commands of `make up`, `down`, `logs`, `clean`, `demo`. Owns the order of steps; other modules do them."""

import argparse
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.elasticsearch.install import install
from deploy.elasticsearch.problem import SetupProblem
from deploy.elasticsearch.server import say
from deploy.local import supervision
from deploy.local.checks import expect_startable, unknown_settings
from deploy.local.choices import OWN_BACKENDS, ROOT, Choices, choose
from deploy.local.demo_plan import collection_of, demo_experiments, expect_measurable, paper_options
from deploy.local.leftovers import leftovers
from deploy.local.ports import in_use, record_ports
from deploy.local.problem import StackProblem
from deploy.local.running_stack import (
    pipelines_over_every_backend,
    reread_pipelines,
    served_pipelines,
    wait_until_ready,
)
from deploy.local.served_models import with_models
from deploy.local.stacks import DATA, DEMO, Stack, exclusive, expect_same_settings, requested_stack, write_digests
from deploy.local.systems import NONE, asks_for_paper, bring_models, demo_systems
from deploy.local.with_elasticsearch import elasticsearch_variables
from deploy.models.precision import read_cpuinfo
from evaluator.errors import command_line
from evaluator.machine.measured_processes import is_this_machine, record_stack
from evaluator.runs.run_folder import RunFolder
from services.files.disk_writes import end_command


def evaluator(choices: Choices, *arguments: str) -> int:
    """Runs the evaluator's command line against this stack; returns its exit status."""
    command = [sys.executable, "-m", "evaluator", *arguments]
    # A secured Elasticsearch of ours: its statistics are asked with its key.
    started = elasticsearch_variables(choices.elasticsearch_data) if choices.starts_elasticsearch else None
    environment = {**os.environ, **choices.environment(), **(started or {})}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def chosen(environment: Mapping[str, str], directory: Path, *, own_ports: bool, name: str = "") -> Choices:
    """Returns the choices of a stack, with its models."""
    choices = choose(environment, directory, own_ports=own_ports, name=name)
    return with_models(choices, environment, read_cpuinfo())


def launch(choices: Choices) -> None:
    """Checks the settings, starts the stack and waits until it is ready; stops everything on failure."""
    if choices.secure is not None:
        choices.secure.make()
    environment = {**os.environ, **choices.environment()}
    bring_models(environment, choices.ports)
    expect_startable(environment, choices.ports)
    busy = [f"{process} ({port})" for process, port in choices.ports.items() if in_use(port)]
    if busy:
        names = " and ".join(name.split(" ")[0].upper() + "_PORT" for name in busy)
        raise StackProblem(f"The port of {', '.join(busy)} is in use: end what listens there, or set {names}.")
    if choices.starts_elasticsearch:
        install(say)
    # failed_start reads this log: entries of an earlier run must not count.
    (choices.directory / "logs" / "supervisord.log").unlink(missing_ok=True)
    say(f"Starting {', '.join(name for name, _ in supervision.processes(choices))} ...")
    try:
        supervision.start(choices, os.environ)
        wait_until_ready(choices, say)
        if supervisor := supervision.pid(choices.directory):
            record_processes(choices, supervisor)
    except BaseException:
        supervision.stop(choices.directory)
        raise


def record_processes(choices: Choices, supervisor: int) -> None:
    """Records the processes whose CPU time is the stack's. Says so, and records nothing, where one is not known."""
    if any(map(is_this_machine, choices.outside_urls(os.environ))):
        say("Measurements cannot see the CPU of other work: this stack uses a server here that it did not start.")
    else:
        record_stack(runs_folder(), choices.url("gateway"), supervisor)


def notices(choices: Choices) -> Iterator[str]:
    """Yields the precision of the models, and a line for each variable that is replaced or ignored."""
    if choices.precision:
        yield choices.precision
    for name, backend in choices.backends.items():
        instead = "" if name not in OWN_BACKENDS else f", so no {name} service is started here"
        yield f"GATEWAY_BACKENDS: {name} ({backend.family}) is at {backend.url}{instead}."
    if choices.unused:
        yield f"The stack sets these variables itself; your values are not used: {', '.join(choices.unused)}."
    for name in unknown_settings(os.environ):
        yield f"{name} is not a setting (.env.example lists them all); it is not used."


def up() -> int:
    """Starts a stack with the demo's collection unless it runs; returns when it can be searched."""
    stack = requested_stack(os.environ)
    with exclusive(
        stack.directory, f"Another `{stack.command('up')}` is at work in this checkout: wait until it has ended."
    ):
        choices = chosen(os.environ, stack.directory, own_ports=False, name=stack.name)
        for line in notices(choices):
            say(line)
        if supervision.pid(stack.directory) is not None:
            expect_same_settings(choices, os.environ, stack)
            wait_until_ready(choices, say)
            say(f"The stack is up already (`{stack.command('down')}` ends it). {reread_pipelines(choices)}")
        else:
            start(choices, stack)
            say(f"Ready: {choices.url('gateway')} serves the collection `demo`.")
            for line in addresses(choices, os.environ):
                say(line)
    say(f"Logs: {stack.command('logs')}. End: {stack.command('down')}.")
    return 0


def addresses(choices: Choices, environment: Mapping[str, str]) -> Iterator[str]:
    """Yields where the processes of a stack are, and the option by which the evaluator measures their CPU time."""
    yield f"Addresses: {', '.join(f'{process} {choices.url(process)}' for process in choices.ports)}."
    dataset = ("--dataset", environment["DATASET"]) if environment.get("DATASET") else ()
    measured = ("run", "demo", *dataset, "--processes", choices.processes(environment))
    yield f"To measure, with CPU time and memory: {command_line(*measured, gateway=choices.url('gateway'))}"
    if choices.secure is not None:
        ca_file, token_file = choices.secure.ca_file, choices.secure.token_file
        # By a pipe: others can read a command line.
        header = f"sed 's/^/Authorization: Bearer /' {shlex.quote(str(token_file))}"
        call = f"curl --cacert {shlex.quote(str(ca_file))} -H @-"
        yield f"To call it: {header} | {call} {choices.url('gateway')}/v1/pipelines"
        variables = " ".join([*choices.secure.caller_variables, f"GATEWAY_URL={choices.url('gateway')}"])
        yield f"For the evaluator: export {variables}"


def start(choices: Choices, stack: Stack) -> None:
    """Starts a stack and loads the demo's collection; stops everything on failure."""
    launch(choices)
    write_digests(choices, os.environ)
    record_ports(stack.directory, choices.ports)
    # On every backend that a pipeline uses.
    if evaluator(
        choices, "ingest", "--collection", "demo", "--pipelines", ",".join(pipelines_over_every_backend(choices))
    ):
        supervision.stop(stack.directory)
        raise StackProblem("The demo's collection could not be loaded (see above); the stack was stopped.")


def down() -> int:
    """Stops a stack; its data stays on disk."""
    stack = requested_stack(os.environ)
    say("The stack has ended; its data stays." if supervision.stop(stack.directory) else "The stack is not up.")
    return 0


def logs() -> int:
    """Follows the logs of all processes."""
    stack = requested_stack(os.environ)
    files = sorted(str(file) for file in (stack.directory / "logs").glob("*.log"))
    if not files:
        raise StackProblem(f"There are no logs yet: `{stack.command('up')}` starts the stack.")
    os.execvp("tail", ["tail", "-n", "20", "-F", *files])


def demo() -> int:
    """Starts a separate stack, runs the evaluator's demo on it, and always stops it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # unwinds through `finally`
    with exclusive(DEMO, "Another `make demo` runs in this checkout: wait until it has ended."):
        supervision.stop(DEMO)  # of a demo that was killed
        paper = collection_of(os.environ) if asks_for_paper(os.environ) else None
        experiments = demo_experiments(os.environ)
        systems = demo_systems(os.environ, experiments[0].pipelines)
        environment = {**os.environ, "SYSTEMS": ",".join([NONE, *systems])}
        choices = chosen(environment, DEMO, own_ports=True)
        for line in notices(choices):
            say(line)
        expect_measurable(experiments, {**os.environ, "GATEWAY_BACKENDS": choices.environment()["GATEWAY_BACKENDS"]})
        try:
            launch(choices)
            earlier = RunFolder.every(runs_folder())
            options: list[str] = []
            if paper is not None:
                options = paper_options(choices, os.environ, paper, served_pipelines(choices), evaluator, say)
            status = evaluator(choices, "demo", "--processes", choices.processes(os.environ), *options)
            run = run_since(earlier)
            if paper is not None and run is not None and (run / "report.json").exists():
                status = evaluator(choices, "analyse", str(run)) or status
            return status
        finally:
            supervision.stop(DEMO)


def clean() -> int:
    """Prints what no run and no stack needs any more; removes it with YES=1 alone."""
    removes = os.environ.get("YES") == "1"
    total = 0.0
    for leftover in list(leftovers(runs_folder(), DATA, os.environ)):
        size, days = leftover.megabytes, leftover.days
        if removes:
            leftover.remove()
        total += size
        say(f"{size:10.1f} MB, unchanged for {days:.0f} days: {leftover.places[0]}")
    say(f"{total:10.1f} MB " + ("removed." if removes else "in all. Nothing was removed: YES=1 removes it."))
    return 0


def runs_folder() -> Path:
    """Returns the folder that the evaluator writes its runs to."""
    return ROOT / (os.environ.get("EVALUATOR_RUNS") or ".runs")


def run_since(earlier: Sequence[Path]) -> Path | None:
    """Returns the demo's run that was created since; None when it failed before that, or when there are several."""
    since = [path for path in RunFolder.every(runs_folder()) if path not in earlier and "Z-demo-" in path.name]
    return since[0] if len(since) == 1 else None


def main() -> int:
    parser = argparse.ArgumentParser(prog=".venv/bin/python -m deploy.local", description=__doc__.partition(" Owns")[0])
    parser.add_argument("command", choices=("up", "down", "logs", "demo", "clean"))
    try:
        match parser.parse_args().command:
            case "up":
                return up()
            case "down":
                return down()
            case "logs":
                return logs()
            case "clean":
                return clean()
            case _:
                return demo()
    except (StackProblem, SetupProblem) as problem:
        say(str(problem))
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    end_command("deploy.local", main)
