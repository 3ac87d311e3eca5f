"""Runs `python -m MODULE` in forks of a process that has imported the modules, which takes 1 to 3 s of CPU."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import gc, importlib, json, os, resource, runpy, selectors, signal, sys, traceback

def read(pipes):
    said = {pipe: b"" for pipe in pipes}
    with selectors.DefaultSelector() as open_pipes:
        for pipe in pipes:
            open_pipes.register(pipe, selectors.EVENT_READ)
        while open_pipes.get_map():
            for key, _ in open_pipes.select():
                said[key.fd] += (more := os.read(key.fd, 65_536))
                if not more:
                    open_pipes.unregister(key.fd)
                    os.close(key.fd)
    return [said[pipe].decode() for pipe in pipes]

for line in sys.stdin:
    asked = json.loads(line)
    for name in asked["imports"]:
        importlib.import_module(name)
    gc.freeze()
    (out, to_out), (err, to_err) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        break
    os.close(to_out)
    os.close(to_err)
    said = read((out, err))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([status, *said]), flush=True)
else:
    sys.exit()
if asked["stdout"] is not None:
    to_out = os.open(asked["stdout"], os.O_WRONLY)
for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, to_out), (2, to_err)):
    os.dup2(file, number)
os.closerange(3, 256)
os.environ.clear()
os.environ.update(asked["environment"])
if asked["file_bytes"] is not None:
    sys.dont_write_bytecode = True  # Python 3.11 keeps the part of a module that fits, and nobody imports it again
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (asked["file_bytes"],) * 2)
sys.argv = asked["words"]
status = 0
try:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
except SystemExit as ended:
    status = ended.code or 0
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
except BaseException:
    traceback.print_exc()
    status = 1
try:
    sys.stdout.flush()
    sys.stderr.flush()
except OSError:
    status = 120
os._exit(status)  # taking down what all have imported takes 1 s
"""


@dataclass(frozen=True)
class Forks:
    """The process that forks. It has the environment of the tests; each fork gets the one that is given."""

    server: subprocess.Popen[str]

    def run(
        self,
        words: Sequence[str],
        imports: Sequence[str],
        environment: Mapping[str, str],
        file_bytes: int | None = None,
        stdout: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a module with its arguments and returns its status and output. `imports`: what all forks share.

        A file of the fork holds `file_bytes` at most: a write beyond that fails. `stdout`: a file for its output.
        """
        asked = {"words": words, "imports": imports, "environment": dict(environment)}
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        self.server.stdin.write(json.dumps({**asked, "file_bytes": file_bytes, "stdout": stdout}) + "\n")
        self.server.stdin.flush()
        status, out, err = json.loads(self.server.stdout.readline())
        return subprocess.CompletedProcess(list(words), status, out, err)


@contextmanager
def forks() -> Iterator[Forks]:
    """Starts the process that forks, and ends it."""
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield Forks(server)
        assert server.stdin is not None
        server.stdin.close()
