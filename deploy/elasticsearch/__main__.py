"""Runs the command line: install, run (in the foreground), start and stop (in the background)."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from deploy.elasticsearch.account import make_directory
from deploy.elasticsearch.data_lock import is_locked, read_record
from deploy.elasticsearch.endpoint import Endpoint
from deploy.elasticsearch.install import ROOT, install
from deploy.elasticsearch.problem import SetupProblem
from deploy.elasticsearch.server import say, start_server
from services.files.disk_writes import end_command

DATA = ROOT / ".data" / "elasticsearch"


def run(data: Path, port: int | None, secured: bool) -> int:
    """Serves in the foreground until SIGTERM, SIGINT or the end of the server; returns its exit status."""
    installation = install(say)
    # SystemExit unwinds to `finally` from anywhere, also from waiting.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = start_server(installation, data, port=port, secured=secured)
    try:
        endpoint = server.wait_until_healthy()
        say(f"Elasticsearch is healthy: {endpoint.url} (pid {server.pid}; more in {data}/server.json)")
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        server.stop()


def start(data: Path, port: int | None, secured: bool) -> int:
    """Starts in the background unless it runs; prints the lines to export."""
    if (running := read_record(data)) is None:
        endpoint = _start(data, port, secured)
    else:
        endpoint = running.endpoint
        other_port = port is not None and not endpoint.url.endswith(f":{port}")
        if other_port or secured != (endpoint.ca_file is not None):
            raise SetupProblem(f"Elasticsearch already runs on {data} at {endpoint.url}: stop it first to change that.")
    sys.stdout.write("".join(f"{line}\n" for line in endpoint.exports()))
    return 0


def _start(data: Path, port: int | None, secured: bool) -> Endpoint:
    installation = install(say)
    log = make_directory(data, installation.account) / "server.log"
    say(f"Starting Elasticsearch (its output: {log}) ...")
    with log.open("ab") as output:
        server = start_server(installation, data, port=port, secured=secured, output=output, detached=True)
    try:
        return server.wait_until_healthy()
    except BaseException as problem:
        server.stop()
        if isinstance(problem, SetupProblem):
            raise SetupProblem(f"{problem} It is in {log}; nothing was left running.") from None
        raise


def stop(data: Path) -> int:
    """Stops the server of this data directory and waits for its end."""
    running = read_record(data)
    if running is None:
        if is_locked(data):
            raise SetupProblem(f"The Elasticsearch on {data} is still starting: try again when it is healthy.")
        say(f"No Elasticsearch runs on {data}.")
        return 0
    os.kill(running.pid, signal.SIGTERM)
    while is_locked(data):
        time.sleep(0.1)
    say(f"Elasticsearch at {running.endpoint.url} has stopped; its data stays in {data}.")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog=".venv/bin/python -m deploy.elasticsearch", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("install", help="fetch and build the distribution, once")
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--data", type=Path, default=DATA, help="data directory (default: %(default)s)")
    how = argparse.ArgumentParser(add_help=False)
    how.add_argument("--port", type=int, help="port on 127.0.0.1 (default: any free one)")
    how.add_argument("--secure", action="store_true", help="use TLS and an API key")
    commands.add_parser("run", parents=[where, how], help="serve in the foreground")
    commands.add_parser("start", parents=[where, how], help="serve in the background; prints the URL when healthy")
    commands.add_parser("stop", parents=[where], help="stop what `start` or `run` started on this directory")
    options = parser.parse_args()
    try:
        match options.command:
            case "install":
                install(say)
                return 0
            case "run":
                return run(options.data.absolute(), options.port, options.secure)
            case "start":
                return start(options.data.absolute(), options.port, options.secure)
            case _:
                return stop(options.data.absolute())
    except SetupProblem as problem:
        say(str(problem))
        return 1
    except PermissionError as error:
        say(f"{error.filename} belongs to another user ({error.strerror}): run as that user, or choose another --data.")
        return 1


if __name__ == "__main__":
    end_command("deploy.elasticsearch", main)
