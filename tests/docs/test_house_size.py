"""Bounds the size of the house: modules in a folder, lines of a module, words of a document and of a sentence."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.test_documents import ROOT
from tests.docs.test_plain_language import ENTRIES, prose

PRODUCT = ("services", "gateway", "evaluator", "deploy", "workshop", "clients")
MOST_LINES = 500
MOST_MODULES = 25
# A root holds entry files and ports; everything else is in a room.
MOST_MODULES_OF_A_ROOT = {"evaluator": 10, "evaluator/load": 10, "services/chassis": 15, "gateway": 8}

MOST_LINES_OF_THE_README = 110
MOST_DECISIONS = 60
MOST_WORDS_OF_A_SENTENCE = 35
MOST_WORDS = {
    "ARCHITECTURE.md": 1_800,
    "CHANGELOG.md": 1_500,
    "clients/python/README.md": 500,
    "CONTRIBUTING.md": 800,
    "DECISIONS.md": 3_600,
    "README.md": 900,
    "gateway/README.md": 1_300,
    "docs/threat-model.md": 1_600,
}
MOST_WORDS_OF_ANOTHER = 1_000
# Lines of the house, which only fall: a feature pays with what it deletes.
PRODUCT_SUFFIXES = (".py", ".html", ".js", ".css", ".sh")
MOST_LINES_OF_ALL = {
    ("services", "gateway", "evaluator", "deploy"): 61_106,
    ("clients",): 1_659,
    ("workshop",): 4_379,
    ("tests",): 65_132,
}
MOST_WORDS_OF_A_ROOM = 600
# Without the changelog, measurements, and what commands write.
MOST_WORDS_OF_ALL = 30_000


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def words(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").split())


def modules(folder: Path) -> list[Path]:
    return [module for module in folder.glob("*.py") if module.name != "__init__.py"]


NOT_COUNTED = (
    "CHANGELOG.md",
    "docs/soak/",
    "docs/measurements/",
    "docs/route-keys.md",
    "docs/process-metrics.md",
    "docs/analysis/",
    "docs/pictures/",
)
WRITTEN = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    and not path.relative_to(ROOT).as_posix().startswith(NOT_COUNTED)
)
ROOMS = sorted((ROOT / "evaluator").glob("*/README.md"))
READ_FIRST = [path for path in WRITTEN if path.name in ("README.md", "ARCHITECTURE.md")]


def sentences(document: str) -> Iterator[str]:
    """Yields the sentences outside code blocks and tables. A link is its text, a piece of inline code one word."""
    paragraphs = [""]
    previous = 0
    for number, line in prose(document):
        begins = re.match(r"\s*([-*#]|\d+\.)", line)
        if begins or not line.strip() or number != previous + 1:
            paragraphs.append("")
        paragraphs[-1] += f" {line.strip().lstrip('-*># ')}"
        previous = number
    for paragraph in paragraphs:
        plain = re.sub(r"`[^`]+`", "code", re.sub(r"\]\([^)]*\)", "]", paragraph))
        yield from re.split(r"(?<=[.!?])[\])\"”]*\s+", plain)


def long_sentences(document: str) -> list[str]:
    return [sentence for sentence in sentences(document) if len(sentence.split()) > MOST_WORDS_OF_A_SENTENCE]


@pytest.mark.parametrize(("folder", "most"), MOST_MODULES_OF_A_ROOT.items())
def test_a_root_leaves_the_modules_to_its_rooms(folder: str, most: int) -> None:
    assert 0 < len(modules(ROOT / folder)) <= most


def test_a_folder_has_at_most_25_modules() -> None:
    folders = {module.parent for folder in PRODUCT for module in (ROOT / folder).rglob("*.py")}
    assert {name(folder) for folder in folders if len(modules(folder)) > MOST_MODULES} == set()


def test_no_module_is_longer_than_500_lines() -> None:
    every_module = [module for folder in (*PRODUCT, "tests") for module in (ROOT / folder).rglob("*.py")]
    lines = {name(module): len(module.read_text(encoding="utf-8").splitlines()) for module in every_module}
    assert {module: count for module, count in lines.items() if count > MOST_LINES} == {}


@pytest.mark.parametrize(("folders", "most"), MOST_LINES_OF_ALL.items())
def test_the_house_does_not_grow(folders: tuple[str, ...], most: int) -> None:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in PRODUCT_SUFFIXES]
    assert 0 < sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files) <= most


def test_the_readme_has_at_most_110_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_LINES_OF_THE_README


def test_there_are_at_most_60_decisions() -> None:
    assert 0 < len(ENTRIES) <= MOST_DECISIONS


@pytest.mark.parametrize(("document", "most"), MOST_WORDS.items())
def test_a_document_stays_within_its_words(document: str, most: int) -> None:
    assert 0 < words(ROOT / document) <= most


def test_any_other_document_has_at_most_1000_words() -> None:
    others = [path for path in WRITTEN if name(path) not in MOST_WORDS]
    assert {name(path): words(path) for path in others if words(path) > MOST_WORDS_OF_ANOTHER} == {}


def test_a_room_of_the_evaluator_has_at_most_600_words() -> None:
    assert ROOMS
    assert {name(room): words(room) for room in ROOMS if words(room) > MOST_WORDS_OF_A_ROOM} == {}


def test_all_documents_together_have_at_most_30000_words() -> None:
    assert 0 < sum(map(words, WRITTEN)) <= MOST_WORDS_OF_ALL


@pytest.mark.parametrize("document", READ_FIRST, ids=name)
def test_no_sentence_is_longer_than_35_words(document: Path) -> None:
    assert long_sentences(document.read_text(encoding="utf-8")) == []


def test_tables_code_and_link_targets_do_not_lengthen_a_sentence() -> None:
    most, longer = "word " * 34 + "end.", "word " * 35 + "end."
    quiet = f"| {longer} |\n```\n{longer}\n```\n{most} {most}\n\n{most[:-4]}[end](a b c). `a b c`."
    assert long_sentences(quiet) == []
    assert len(long_sentences(f"{quiet}\n{longer}\n- {longer}")) == 2
