"""Checks the form of the documents: lines, links, and the length of decisions."""

import re
from collections.abc import Iterator

from tests.docs.test_documents import ROOT

MOST_CHARACTERS = 120
MOST_WORDS = 120
# An entry is a heading of the third level; those of the second level are its topics.
ENTRIES = [
    entry.partition("\n## ")[0].partition("\n")
    for entry in (ROOT / "DECISIONS.md").read_text(encoding="utf-8").split("\n### ")[1:]
]
# One link or one URL, perhaps as an item of a list: it has no place to break.
ONE_LINK = re.compile(r"\s*(?:[-*]\s+)?(?:\[[^\]]*\]\([^)]*\)|<?https?://\S+)[.,:;]?")
DOCUMENTS = sorted(
    path for path in ROOT.rglob("*.md") if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
)


def prose(document: str) -> Iterator[tuple[int, str]]:
    """Yields number and text of each line outside code fences and tables."""
    fenced = False
    for number, line in enumerate(document.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.lstrip().startswith("|"):
            yield number, line


def long_lines(document: str) -> list[int]:
    return [n for n, line in prose(document) if len(line) > MOST_CHARACTERS and not ONE_LINK.fullmatch(line)]


def test_no_line_of_prose_is_longer_than_120_characters() -> None:
    found = {path: long_lines(path.read_text(encoding="utf-8")) for path in DOCUMENTS}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_tables_code_and_single_links_may_be_longer() -> None:
    long = "x" * 130
    assert long_lines(f"```\n{long}\n```\n| {long} |\n- [a page](https://example.org/{long})\n{long}") == [6]


def test_a_decision_has_at_most_120_words() -> None:
    assert [title for title, _, body in ENTRIES if len(f"{title} {body}".split()) > MOST_WORDS] == []


def test_decisions_are_numbered_without_a_gap() -> None:
    assert [int(title.partition(".")[0]) for title, _, _ in ENTRIES] == list(range(1, len(ENTRIES) + 1))


def test_every_relative_link_leads_to_a_file() -> None:
    targets = {(path, to) for path in DOCUMENTS for to in re.findall(r"\]\(([^)#\s]+)", path.read_text("utf-8"))}
    assert {(path, to) for path, to in targets if "://" not in to and not (path.parent / to).exists()} == set()
