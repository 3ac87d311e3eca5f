"""The audit of locked packages: what fails it, and that it says so when it has nothing to go by."""

import json
from datetime import date
from pathlib import Path

import pytest

from deploy.audit import ACCEPTED, LOCKS, Accepted, Audited, AuditProblem, Vulnerability, judge, main, read_accepted

TODAY = date(2026, 12, 1)
FOUND = Vulnerability(id="PYSEC-2026-7", aliases=("CVE-2026-1234", "GHSA-aaaa"), fix_versions=("2.1",))
SOUND = Audited(name="h11", version="0.16.0")
WEAK = Audited(name="jinja2", version="2.0", vulns=(FOUND,))
UNKNOWN = Audited(name="numpy", skip_reason="Dependency not found on PyPI")


def accepted(*, name: str = "CVE-2026-1234", until: date = date(2027, 1, 31), package: str = "jinja2") -> Accepted:
    return Accepted(package=package, id=name, until=until, why="Only templates of strangers are hit; ours are our own.")


def test_a_vulnerability_is_named_with_the_version_that_lacks_it() -> None:
    assert judge([SOUND, WEAK], [], TODAY).findings == ("jinja2 2.0 has PYSEC-2026-7 (fixed in 2.1).",)


@pytest.mark.parametrize("name", ["PYSEC-2026-7", "CVE-2026-1234", "GHSA-aaaa"])
def test_what_is_accepted_by_any_of_its_names_is_let_be(name: str) -> None:
    assert judge([WEAK], [accepted(name=name)], TODAY).findings == ()


def test_an_accepted_entry_holds_through_its_last_day_and_fails_after_it() -> None:
    assert judge([WEAK], [accepted(until=TODAY)], TODAY).findings == ()
    (finding,) = judge([WEAK], [accepted(until=date(2026, 11, 30))], TODAY).findings
    assert "accepted until 2026-11-30" in finding
    assert judge([UNKNOWN], [accepted(until=date(2026, 11, 30))], TODAY).findings == (finding,)


def test_an_accepted_entry_that_matches_nothing_is_to_be_removed() -> None:
    (finding,) = judge([SOUND], [accepted()], TODAY).findings
    assert "remove the entry" in finding


def test_a_package_that_was_not_looked_up_among_others_fails() -> None:
    (finding,) = judge([SOUND, UNKNOWN], [], TODAY).findings
    assert finding.startswith("numpy: was not looked up")


def test_with_nothing_looked_up_there_is_no_verdict() -> None:
    assert not judge([UNKNOWN], [], TODAY).has_data
    assert not judge([], [], TODAY).has_data


def test_an_entry_without_a_day_or_a_reason_is_refused_and_ours_have_both(tmp_path: Path) -> None:
    read_accepted(ACCEPTED)
    assert all(lock.is_file() for lock in LOCKS)
    file = tmp_path / "accepted.yaml"
    file.write_text("- {package: jinja2, id: CVE-1, why: we looked at it and it is fine}\n", encoding="utf-8")
    with pytest.raises(AuditProblem, match="until"):
        read_accepted(file)


def pip_audit(folder: Path, printed: str, said: str = "") -> Path:
    """A program that answers as pip-audit does."""
    program = folder / "pip-audit"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\necho '{said}' >&2\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def test_where_the_registry_tells_nothing_it_fails_unless_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = pip_audit(tmp_path, json.dumps({"dependencies": [UNKNOWN.model_dump()], "fixes": []}))
    assert main([], nothing) == 1
    assert "Not audited" in capsys.readouterr().err
    assert main(["--no-data", "skip"], nothing) == 0
    assert "Not audited" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--no-data", "skip"]])
def test_a_vulnerability_or_a_program_that_fails_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    weak = json.dumps({"dependencies": [WEAK.model_dump()], "fixes": []})
    assert main(arguments, pip_audit(tmp_path, weak)) == 1
    assert "PYSEC-2026-7" in capsys.readouterr().err
    assert main(arguments, pip_audit(tmp_path, "", "Could not connect")) == 1
    assert "Could not connect" in capsys.readouterr().err
    assert main(arguments, tmp_path / "absent") == 1
    assert "make install" in capsys.readouterr().err
