"""Owns programs built with `go install` into .cache/go/bin. Built once; a later call finds them there."""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.processes import ROOT

GO = ROOT / ".cache" / "go"

# What Go says of a proxy that it cannot reach.
UNREACHABLE = ("dial tcp", "no such host", "connection refused", "i/o timeout", "network is unreachable")


class ProgramMissingError(Exception):
    """There is no Go here, or no network, to build a program with."""


def go_program(name: str, module: str) -> Path:
    """Returns the program, built from `module` (`path@version`) unless it is there. Raises ProgramMissingError."""
    binary = GO / "bin" / name
    if not binary.exists():
        _go(f"build {name}", "install", module, folder=ROOT)
    return binary


def go_tool(name: str, package: str) -> Path:
    """Returns the program, built from `package` (`path@version`) unless it is there; `go install` refuses a go.mod that
    replaces a module by another. Raises ProgramMissingError."""
    binary, folder = GO / "bin" / name, GO / name
    if not binary.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "go.mod").write_text("module programs\n")
        _go(f"build {name}", "get", "-tool", package, folder=folder)
        _go(f"build {name}", "build", "-o", str(binary), package.partition("@")[0], folder=folder)
    return binary


def programs_of_a_module(module: str, version: str, packages: Sequence[str], flags: str = "") -> None:
    """Builds packages of a module that `go install` refuses, because its go.mod replaces others by folders of its own.

    Those are published beside it as v0: v1.34.4 of the module has v0.34.4 of them. `flags` are the linker's. Raises
    ProgramMissingError.
    """
    missing = [package for package in packages if not (GO / "bin" / package.rpartition("/")[2]).exists()]
    if not missing:
        return
    folder, purpose = GO / module.replace("/", "-"), f"build {', '.join(missing)}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "go.mod").write_text("module programs\n")
    downloaded = json.loads(_go(purpose, "mod", "download", "-json", f"{module}@{version}", folder=folder))
    replaced = json.loads(_go(purpose, "mod", "edit", "-json", downloaded["GoMod"], folder=folder))["Replace"] or []
    beside = [f"-replace={old['Old']['Path']}={old['Old']['Path']}@v0{version.removeprefix('v1')}" for old in replaced]
    _go(purpose, "mod", "edit", f"-require={module}@{version}", *beside, folder=folder)
    _go(purpose, "build", "-mod=mod", f"-ldflags=-s -w {flags}", "-o", f"{GO / 'bin'}/", *missing, folder=folder)


def _go(purpose: str, *words: str, folder: Path) -> str:
    """Runs Go and returns what it printed. Raises ProgramMissingError."""
    go = shutil.which("go") or shutil.which("/usr/local/go/bin/go")
    command = f"go {shlex.join(words[:4])}"
    if go is None:
        raise ProgramMissingError(f"there is no Go here to {purpose} with ({command})")
    environment = os.environ | {"GOBIN": str(GO / "bin"), "GOFLAGS": "-modcacherw"}
    done = subprocess.run([go, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if any(sign in done.stderr for sign in UNREACHABLE):
        raise ProgramMissingError(f"there is no network here to {purpose} with ({command})")
    assert done.returncode == 0, done.stderr
    return done.stdout
