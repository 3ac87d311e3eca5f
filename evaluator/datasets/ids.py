"""Owns what makes two ids of a collection the same, and which ids a corpus has, at 8 bytes an id."""

import re
import unicodedata
from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from evaluator.errors import DatasetError
from services.contracts.base import UNSENDABLE

if TYPE_CHECKING:  # numpy is imported where it is used: the command line starts without it
    import numpy as np
    from numpy.typing import NDArray

# The second column of a line of TREC, which tools ignore, marks with this word that the ids of the line are encoded.
ENCODED = "percent-encoded"

_BREAKS = re.compile(r"[\t\r\n]")
_MARK = "\ufeff"  # first in a file, it is no part of an id; so it is none around an id anywhere
# trec_eval and its readers split lines at white space; `%` too, so that decoding gives the id back.
_UNREADABLE = re.compile(r"[\s%]")


def plain_id(text: str) -> str:
    """Returns an id in Unicode's NFC, without white space, byte order marks and the quotes of a CSV cell around it.

    It is applied to the ids of corpus, queries, judgments and runs alike: a file that quotes its ids, pads them, or has
    their accents apart, as names of files of macOS have, names the same documents as one that does not.
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
    words = "-".join("".join(one for one in text if one in "-_" or one.isspace() or _in_word(one)).split())
    plain = words[:most].strip("-") or "untitled"
    found, number = plain, 0
    while found in used:
        number += 1
        found = f"{plain}-{number}"
    used.add(found)
    return found


def _in_word(character: str) -> bool:
    # Marks are the vowels of Hindi and Thai. U+FE0F is one too, and only gives an emoji its colours.
    return unicodedata.category(character)[0] in "LMN" and character != "\ufe0f"


def encoded_id(identity: str) -> str:
    """Percent-encodes white space and `%` of an id (RFC 3986), for a line whose second column is ENCODED."""
    return _UNREADABLE.sub(lambda found: quote(found[0], safe=""), identity)


def decoded_id(text: str, place: str) -> str:
    """Returns the id that `encoded_id` wrote. Raises DatasetError for what it cannot have written."""
    try:
        identity = unicodedata.normalize("NFC", unquote(text, errors="strict"))
    except UnicodeDecodeError as error:
        raise DatasetError(f"{place}: {text!r} is not percent-encoded UTF-8") from error
    if _BREAKS.search(identity) or UNSENDABLE.search(identity):
        raise DatasetError(f"{place}: {text!r} has a tab, line break or control character, which no id has")
    return identity


def read_id(value: object, place: str) -> tuple[str, bool]:
    """Returns the plain id of a JSON `_id`, and whether it was written otherwise. Raises DatasetError."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise DatasetError(f"{place}: _id: a string is needed")
    identity = plain_id(value)
    if not identity:
        raise DatasetError(f"{place}: _id: a string is needed that is not empty")
    if _BREAKS.search(identity):
        raise DatasetError(f"{place}: _id: a tab or line break, which no run file can carry")
    if UNSENDABLE.search(identity):
        raise DatasetError(
            f"{place}: _id: {identity!r} has control characters or lone surrogates, which no file carries"
        )
    return identity, identity != value


class IdHashes:
    """Holds the 64-bit SipHash of each id of a corpus (Python's own hash of a string), 8 bytes an id.

    A document that is missing passes for one that is there with a probability of (ids / 2^64), so below 1e-12 for 15
    million ids. For duplicates the caller compares the ids themselves.
    """

    def __init__(self) -> None:
        self._hashes = array("q")
        self._in_order = True

    def __len__(self) -> int:
        return len(self._hashes)

    def add(self, identity: str) -> None:
        """Adds an id."""
        self._hashes.append(hash(identity))
        self._in_order = False

    def repeated(self) -> frozenset[int]:
        """Returns the hashes that stand more than once; an id is one of them if its `hash` is."""
        hashes = self._sorted()
        return frozenset(hashes[1:][hashes[1:] == hashes[:-1]].tolist())

    def missing(self, identities: Iterable[str]) -> set[str]:
        """Returns the ids that were never added."""
        import numpy as np

        asked = list(identities)
        if not asked or not self._hashes:
            return set(asked)
        hashes, wanted = self._sorted(), np.array([hash(name) for name in asked])
        at = np.minimum(np.searchsorted(hashes, wanted), len(hashes) - 1)
        return {name for name, there in zip(asked, hashes[at] == wanted, strict=True) if not there}

    def _sorted(self) -> "NDArray[np.int64]":
        """Sorts in place, so that 15 million ids need no second array."""
        import numpy as np

        hashes = np.frombuffer(self._hashes, dtype=np.int64)
        if not self._in_order:
            hashes.sort()
            self._in_order = True
        return hashes
