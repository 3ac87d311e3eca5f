"""Owns programs built with `go install` into .cache/go/bin. Built once; a later call finds them there."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.support.processes import ROOT

# What Go says of a proxy that it cannot reach.
UNREACHABLE = ("dial tcp", "no such host", "connection refused", "i/o timeout", "network is unreachable")


class ProgramMissingError(Exception):
    """There is no Go here, or no network, to build a program with."""


def go_program(name: str, module: str) -> Path:
    """Returns the program, built from `module` (`path@version`) unless it is there. Raises ProgramMissingError."""
    binary = ROOT / ".cache" / "go" / "bin" / name
    if binary.exists():
        return binary
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    if go is None:
        raise ProgramMissingError(f"there is no Go here to build {name} with (go install {module})")
    environment = os.environ | {"GOBIN": str(binary.parent), "GOFLAGS": "-modcacherw"}
    done = subprocess.run([go, "install", module], env=environment, capture_output=True, text=True, check=False)
    if any(sign in done.stderr for sign in UNREACHABLE):
        raise ProgramMissingError(f"there is no network here to build {name} with (go install {module})")
    assert done.returncode == 0, done.stderr
    return binary
