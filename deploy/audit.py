"""`python -m deploy.audit`: looks up known vulnerabilities of what the locks name, by pip-audit.

pip-audit passes over a package that the registry does not know, and succeeds: here that is a failure. What is
accepted stands in deploy/audit-accepted.yaml, each entry with its reason and its last day.
"""

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter

from services.chassis.settings.strict_yaml import parse_yaml
from services.files.disk_writes import end_command

ROOT = Path(__file__).resolve().parents[1]
LOCKS = (ROOT / "requirements.lock", ROOT / "deploy" / "requirements-gpu.lock")
ACCEPTED = ROOT / "deploy" / "audit-accepted.yaml"
_TIMEOUT_S = 600


class AuditProblem(Exception):
    """The vulnerabilities could not be looked up; the message names the reason."""


class Accepted(BaseModel):
    """A vulnerability that we live with until a day, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str
    id: str
    until: datetime.date
    why: Annotated[str, StringConstraints(min_length=20)]


class Vulnerability(BaseModel):
    """A finding of pip-audit; aliases are the same finding in other databases."""

    id: str
    aliases: tuple[str, ...] = ()
    fix_versions: tuple[str, ...] = ()


class Audited(BaseModel):
    """What pip-audit reports of one package; `skip_reason` where it knows nothing."""

    name: str
    version: str = ""
    vulns: tuple[Vulnerability, ...] = ()
    skip_reason: str | None = None


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """What has to be done, a sentence each, and whether there was any data."""

    findings: tuple[str, ...]
    has_data: bool


def judge(packages: Iterable[Audited], accepted: Sequence[Accepted], today: datetime.date) -> AuditVerdict:
    """Returns what is neither fixed nor accepted, what could not be looked up, and accepted entries past their day."""
    packages = tuple(packages)
    looked_up = [package for package in packages if package.skip_reason is None]
    findings = [
        f"{entry.package}: {entry.id} was accepted until {entry.until}: look at it again."
        for entry in accepted
        if entry.until < today
    ]
    if not looked_up:
        return AuditVerdict(tuple(findings), has_data=False)
    findings += [
        f"{package.name}: was not looked up ({package.skip_reason})." for package in packages if package.skip_reason
    ]
    needed = set[Accepted]()
    for package in looked_up:
        for vulnerability in package.vulns:
            same = {entry for entry in accepted if entry.package == package.name and entry.id in _names(vulnerability)}
            needed |= same
            if not same:
                fixed = (
                    f"fixed in {', '.join(vulnerability.fix_versions)}"
                    if vulnerability.fix_versions
                    else "not fixed yet"
                )
                findings.append(f"{package.name} {package.version} has {vulnerability.id} ({fixed}).")
    findings += [
        f"{entry.package}: {entry.id} is accepted and no longer there: remove the entry."
        for entry in accepted
        if entry not in needed
    ]
    return AuditVerdict(tuple(findings), has_data=True)


def _names(vulnerability: Vulnerability) -> set[str]:
    return {vulnerability.id, *vulnerability.aliases}


def read_accepted(file: Path) -> tuple[Accepted, ...]:
    """Reads the list of what is accepted. Raises AuditProblem if an entry lacks its reason or its day."""
    try:
        return TypeAdapter(tuple[Accepted, ...]).validate_python(parse_yaml(file.read_text(encoding="utf-8")) or ())
    except ValueError as error:
        raise AuditProblem(f"{file}: {error}") from error


def look_up(lock: Path, program: Path) -> tuple[Audited, ...]:
    """Asks pip-audit of every package of a lock that this Python would install. Raises AuditProblem."""
    command = [str(program), "--requirement", str(lock), "--disable-pip", "--format", "json"]
    command += ["--progress-spinner", "off", "--aliases", "on", "--desc", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except FileNotFoundError as error:
        raise AuditProblem(f"{program} is missing: run `make install`.") from error
    except subprocess.TimeoutExpired as error:
        raise AuditProblem(f"pip-audit had not looked up {lock.name} after {_TIMEOUT_S} s: try again.") from error
    try:
        return TypeAdapter(tuple[Audited, ...]).validate_python(json.loads(done.stdout)["dependencies"])
    except (ValueError, KeyError) as error:
        lines = done.stderr.strip().splitlines()
        raise AuditProblem(
            f"pip-audit could not look up {lock.name}: {lines[-1] if lines else 'it said nothing'}"
        ) from error


def main(arguments: Sequence[str] | None = None, program: Path | None = None) -> int:
    """Audits every lock; 0: nothing to do, 1: something has to be done, or nothing could be looked up."""
    parser = argparse.ArgumentParser(prog=".venv/bin/python -m deploy.audit", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--no-data",
        choices=["fail", "skip"],
        default="fail",
        help="where the registry has no vulnerability data: fail (default), or report it and succeed",
    )
    no_data: Literal["fail", "skip"] = parser.parse_args(arguments).no_data
    try:
        accepted = read_accepted(ACCEPTED)
        audits = {lock: look_up(lock, program or Path(sys.executable).with_name("pip-audit")) for lock in LOCKS}
    except AuditProblem as problem:
        sys.stderr.write(f"Not audited: {problem}\n")
        return 1
    packages = {(package.name, package.version): package for audited in audits.values() for package in audited}
    verdict = judge(packages.values(), accepted, datetime.datetime.now(tz=datetime.UTC).date())
    sys.stderr.write("".join(f"{finding}\n" for finding in verdict.findings))
    if not verdict.has_data:
        sys.stderr.write(
            f"Not audited: the registry told of none of {len(packages)} packages whether they have vulnerabilities.\n"
        )
        return 1 if no_data == "fail" or verdict.findings else 0
    sys.stderr.write(f"Audited {len(packages)} packages: {len(verdict.findings) or 'nothing'} to do.\n")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    end_command("deploy.audit", main)
