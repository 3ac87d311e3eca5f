"""Reads the queries of a collection: BEIR's queries.jsonl, or TREC topics."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from pydantic import TypeAdapter, ValidationError

from evaluator.datasets.ids import plain_id, read_id
from evaluator.datasets.text_files import HashedLines, find_one, json_objects
from evaluator.errors import DatasetError
from services.contracts.base import UNSENDABLE, QueryText
from services.contracts.validation_messages import validation_message

QUERIES = "queries.jsonl"
NAMES = (QUERIES, "topics.txt", "topics.trec", "topics.xml")
_MOST_NAMED = 5  # queries in a message

_WIRE = TypeAdapter[str](QueryText)

_TOPIC = re.compile(r"<top>(.*?)</top>", re.DOTALL | re.IGNORECASE)
# A field ends where the next tag begins: TREC's topics close none of them, or each.
_NUMBER = re.compile(r"<num>\s*(?:Number:)?\s*([^<]*?)\s*(?:<|$)", re.IGNORECASE)
_TITLE = re.compile(r"<title>\s*(?:Topic:)?\s*([^<]*?)\s*(?:<|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Queries:
    """`texts[query]` in file order; `stripped`: characters that the wire does not carry; `trimmed`: ids.

    `unsendable`: ids of queries that no request can carry; they were left out of `texts`.
    """

    texts: Mapping[str, str]
    unsendable: frozenset[str]
    stripped: int
    trimmed: int
    sha256: str


def queries_file(directory: Path) -> Path:
    """Returns the file with the queries: queries.jsonl or TREC topics, packed or not."""
    return find_one(directory, NAMES) or directory / QUERIES


def read_queries(path: Path, *, skip_unsendable: bool = False) -> Queries:
    """Reads every query. The query of a TREC topic is its title.

    Raises DatasetError, also for queries that no request can carry, unless they are to be left out.
    """
    lines = HashedLines(path)
    texts: dict[str, str] = {}
    unsendable: dict[str, str] = {}  # by id: where it stands and what is wrong
    stripped = trimmed = 0
    for place, identity, changed, text in _of_jsonl(path, lines) if ".jsonl" in path.suffixes else _topics(path, lines):
        if identity in texts or identity in unsendable:
            raise DatasetError(f"{place}: the id {identity!r} stood above already")
        # The wire refuses these characters; documents are stripped of them too (services.contracts.documents).
        plain, count = UNSENDABLE.subn("", text)
        try:
            sent_query(plain, f"{place}: query {identity!r}")
        except DatasetError as error:
            unsendable[identity] = str(error)
        else:
            texts[identity] = plain
        stripped += count
        trimmed += changed
    if unsendable and not (skip_unsendable and texts):
        raise DatasetError(
            f"{'; '.join(list(unsendable.values())[:_MOST_NAMED])} ({len(unsendable)} of "
            f"{len(unsendable) + len(texts)} queries cannot be sent); mend them, or leave them out with "
            "--skip-unsendable (skip_unsendable: true)"
        )
    if not texts:
        raise DatasetError(f"{path}: no query in the whole file")
    return Queries(texts, frozenset(unsendable), stripped, trimmed, lines.sha256)


def sent_query(text: str, place: str) -> str:
    """Returns a query as a request carries it, in NFC. Raises DatasetError, which begins with `place`, if none can."""
    try:
        return _WIRE.validate_python(text)
    except ValidationError as error:
        raise DatasetError(f"{place}: {validation_message(error.errors()[0])}") from error


def _of_jsonl(path: Path, lines: HashedLines) -> Iterator[tuple[str, str, bool, str]]:
    for place, value, _ in json_objects(path, lines):
        identity, changed = read_id(value.get("_id"), place)
        text = value.get("text")
        if not isinstance(text, str):
            raise DatasetError(f"{place}: text: a string is needed")
        yield place, identity, changed, text


def _topics(path: Path, lines: HashedLines) -> Iterator[tuple[str, str, bool, str]]:
    content = lines.text()
    topics = _sgml_topics(path, content) if re.search("<top>", content, re.IGNORECASE) else _xml_topics(path, content)
    for place, number, text in topics:
        if not plain_id(number):
            raise DatasetError(f"{place}: a topic without a number")
        identity, _ = read_id(number, place)
        yield place, identity, False, " ".join(text.split())


def _sgml_topics(path: Path, content: str) -> Iterator[tuple[str, str, str]]:
    topics = list(_TOPIC.finditer(content))
    if len(topics) < len(re.findall("<top>", content, re.IGNORECASE)):
        raise DatasetError(f"{path}: a <top> without its </top>")
    for topic in topics:
        place = f"{path}:{content.count(chr(10), 0, topic.start()) + 1}"
        number, title = _NUMBER.findall(topic[1]), _TITLE.findall(topic[1])
        if len(number) != 1 or len(title) != 1:
            raise DatasetError(f"{place}: a topic has one <num> and one <title>; here: {len(number)} and {len(title)}")
        yield place, number[0], title[0]


def _xml_topics(path: Path, content: str) -> Iterator[tuple[str, str, str]]:
    try:
        topics = ElementTree.fromstring(content)
    except ElementTree.ParseError as error:
        raise DatasetError(f"{path}: neither TREC topics (<top>) nor XML: {error}") from error
    for at, topic in enumerate(topics.iter("topic"), start=1):
        query = topic.find("query") if topic.find("query") is not None else topic.find("title")
        text = "".join((topic if query is None else query).itertext())
        yield f"{path}: topic {at}", topic.get("number", ""), text
