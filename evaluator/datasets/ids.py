"""Normalises the ids of a collection, and encodes them for formats in which white space ends a field."""

import re
import unicodedata
from urllib.parse import quote, unquote

from evaluator.errors import DatasetError
from services.contracts.base import UNSENDABLE

# The second column of a line of TREC, which tools ignore, marks with this word that the ids of the line are encoded.
ENCODED = "percent-encoded"

_BREAKS = re.compile(r"[\t\r\n]")
_MARK = "\ufeff"  # first in a file, it is no part of an id; so it is none around an id anywhere
# trec_eval and its readers split lines at white space; `%` too, so that decoding gives the id back.
_UNREADABLE = re.compile(r"[\s%]")


def plain_id(text: str) -> str:
    """Returns an id in Unicode's NFC, without white space, byte order marks and the quotes of a CSV cell around it.

    It is applied to the ids of corpus, queries, judgments and runs alike: a file that quotes its ids, pads them, or
    decomposes their accents, as file names of macOS do, names the same documents as one that does not.
    """
    text = unicodedata.normalize("NFC", text)
    while True:
        text = text.strip()
        if text[:1] == _MARK or text[-1:] == _MARK:
            text = text.strip(_MARK)
            continue
        if len(text) < 2 or not text[0] == text[-1] == '"':
            return text
        text = text[1:-1].replace('""', '"')


def slug(text: str, used: set[str], most: int = 100) -> str:
    """Makes a readable id that is not in `used`, and adds it there: words in lower case, joined by `-`.

    They are those of the anchor that GitHub gives a heading, in NFC, cut to `most` characters. The next of the same
    words ends with `-1`.
    """
    text = unicodedata.normalize("NFC", text.lower())
    # Marks (M) are the vowels of Hindi and Thai. U+FE0F is one too, and only gives an emoji its colours.
    words = (sign for sign in text if sign in "-_" or sign.isspace() or unicodedata.category(sign)[0] in "LMN")
    plain = "-".join("".join(words).replace("\ufe0f", "").split())[:most].strip("-") or "untitled"
    identity, number = plain, 0
    while identity in used:
        number += 1
        identity = f"{plain}-{number}"
    used.add(identity)
    return identity


def encoded_id(identity: str) -> str:
    """Percent-encodes white space and `%` of an id (RFC 3986), for a line whose second column is ENCODED."""
    return _UNREADABLE.sub(lambda unreadable: quote(unreadable[0], safe=""), identity)


def decoded_id(text: str, place: str) -> str:
    """Returns the id that `encoded_id` wrote. Raises DatasetError for what it cannot have written."""
    try:
        identity = unicodedata.normalize("NFC", unquote(text, errors="strict"))
    except UnicodeDecodeError as error:
        raise DatasetError(f"{place}: {text!r} is not percent-encoded UTF-8") from error
    _expect_writable(identity, f"{place}: {text!r}")
    return identity


def read_id(value: object, place: str, field: str = "_id") -> tuple[str, bool]:
    """Returns the plain id of a field of JSON, and whether it was written otherwise. Raises DatasetError."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not (identity := plain_id(value)):
        raise DatasetError(f"{place}: {field}: a string is needed that is not empty")
    _expect_writable(identity, f"{place}: {field}: {identity!r}")
    return identity, identity != value


def _expect_writable(identity: str, place: str) -> None:
    if _BREAKS.search(identity) or UNSENDABLE.search(identity):
        raise DatasetError(f"{place} has a tab, line break, control character or lone surrogate, which no file carries")
