"""Writes the outcomes of gates as JUnit XML, which CI systems show. Judges nothing.

The form is that of Maven's surefire, which Jenkins, GitLab and GitHub actions read.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from services.files.disk_writes import write_whole


class GateCase(NamedTuple):
    """A gate as a test case: its name, whether it held, and a sentence with the figures."""

    name: str
    held: bool
    said: str


def write_junit(path: Path, suite: str, cases: Sequence[GateCase]) -> None:
    """Writes a suite with a test case a gate. Creates the folder of the file."""
    failures = str(sum(not case.held for case in cases))
    counts = {"tests": str(len(cases)), "failures": failures, "errors": "0", "skipped": "0"}
    root = ElementTree.Element("testsuites", counts)
    found = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
    for case in cases:
        element = ElementTree.SubElement(found, "testcase", {"classname": suite, "name": case.name})
        if not case.held:
            ElementTree.SubElement(element, "failure", {"message": case.said}).text = case.said
        else:
            ElementTree.SubElement(element, "system-out").text = case.said
    ElementTree.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, ElementTree.tostring(root, encoding="unicode", xml_declaration=True))
