"""Runs supervisord, which starts the processes of the Procfile, restarts dead ones and stops all."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from deploy.local.choices import ROOT, Choices
from deploy.local.problem import StackProblem
from services.files.disk_writes import write_whole

PROCFILE = ROOT / "deploy" / "Procfile"
# The chassis drains requests within 30 s, Elasticsearch closes its indices; after this they are killed.
STOP_WITHIN_S = 40
# glibc keeps an arena a thread; two keep a process with both models at 387 MB instead of 446, for the same CPU. malloc
# asks for huge pages: a dense search takes 0.93 of the CPU, whose model reads all its weights.
MALLOC = {"MALLOC_ARENA_MAX": "2", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


def processes(choices: Choices) -> Iterator[tuple[str, list[str]]]:
    """Yields name and command of every process of the stack."""
    if choices.starts_elasticsearch:
        port = choices.ports["elasticsearch"]
        words = f"-m deploy.elasticsearch run --port {port} --data".split()
        secured = ["--secure"] if "elasticsearch" in choices.encrypted else []
        yield "elasticsearch", [sys.executable, *words, str(choices.elasticsearch_data), *secured]
    for line in PROCFILE.read_text(encoding="utf-8").splitlines():
        name, _, command = line.partition(":")
        if command and name in choices.ports:
            words = shlex.split(command)
            yield name, [sys.executable, *words[1:]] if words[0] == "python" else words


def configuration(choices: Choices) -> str:
    """Renders supervisord.conf. Settings go through supervisord's environment, so that no secret is written to disk."""
    directory = choices.directory
    text = (
        f"[supervisord]\nlogfile={directory}/logs/supervisord.log\npidfile={directory}/supervisord.pid\n"
        f"directory={ROOT}\nloglevel=info\nlogfile_maxbytes=10MB\nlogfile_backups=2\n"
    )
    for name, command in processes(choices):
        if name in choices.on_elasticsearch and "elasticsearch" in choices.encrypted:
            waiting = [sys.executable, "-m", "deploy.local.with_elasticsearch", str(choices.elasticsearch_data)]
            command = [*waiting, *command]
        # A percent sign is supervisor's own escape.
        line = shlex.join(command).replace("%", "%%")
        text += (
            f"\n[program:{name}]\ncommand={line}\nautorestart=true\nstartsecs=2\nstartretries=5\n"
            f"stopwaitsecs={STOP_WITHIN_S}\nstdout_logfile={log_file(directory, name)}\nredirect_stderr=true\n"
            "stdout_logfile_maxbytes=10MB\nstdout_logfile_backups=2\n"
        )
    return text


def log_file(directory: Path, process: str) -> Path:
    return directory / "logs" / f"{process}.log"


def start(choices: Choices, environment: Mapping[str, str]) -> None:
    """Starts supervisord in the background, which starts the processes."""
    directory = choices.directory
    (directory / "logs").mkdir(parents=True, exist_ok=True)
    file = directory / "supervisord.conf"
    write_whole(file, configuration(choices))
    started = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "supervisor.supervisord", "-c", str(file)],
        env={**MALLOC, **environment, **choices.environment(), "PYTHONUNBUFFERED": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if started.returncode:
        raise StackProblem(f"The supervisor did not start: {started.stderr.strip() or started.stdout.strip()}")
    # It writes its pid after it has gone to the background.
    for _ in range(100):
        if pid(directory) is not None:
            return
        time.sleep(0.05)
    raise StackProblem(f"The supervisor ended at once: {directory}/logs/supervisord.log says why.")


def pid(directory: Path) -> int | None:
    """Returns the pid of this directory's supervisor if it runs (not of another process with a reused pid)."""
    try:
        number = int((directory / "supervisord.pid").read_text())
        command = Path(f"/proc/{number}/cmdline")
        os.kill(number, 0)
        if command.exists() and str(directory / "supervisord.conf").encode() not in command.read_bytes():
            return None
    except (OSError, ValueError):
        return None
    return number


def failed_start(directory: Path) -> str | None:
    """Returns the first process that exited with a failure status since the supervisor started, if any.

    During a start this is a fault that a restart does not repair; the process's log names it. A process ended by a
    signal is restarted, and returned here once the supervisor has given it up.
    """
    log = directory / "logs" / "supervisord.log"
    for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
        failure = re.search(r"exited: (\S+) \(exit status [1-9]\d*; not expected\)|gave up: (\S+) entered FATAL", line)
        if failure:
            return failure[1] or failure[2]
    return None


def stop(directory: Path) -> bool:
    """Stops the supervisor, which stops the processes first. Returns False when none ran."""
    number = pid(directory)
    if number is None:
        return False
    os.kill(number, signal.SIGTERM)
    last = time.monotonic() + STOP_WITHIN_S + 20
    while pid(directory) is not None:
        if time.monotonic() > last:
            raise StackProblem(f"The supervisor (pid {number}) does not end; end it by its pid.")
        time.sleep(0.1)
    return True
