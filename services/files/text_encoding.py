"""Turns the bytes of a file that a person wrote into text: UTF-8, with or without a byte order mark. Opens no file."""

import codecs

GZIP = b"\x1f\x8b"
# UTF-32 first: its mark begins with that of UTF-16.
_OTHERS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
    (GZIP, "packed with gzip"),
    (b"PK\x03\x04", "a zip archive or a workbook of a spreadsheet"),
)


class NotUtf8(ValueError):
    """Bytes are not a text in UTF-8. The message names the likely format and the remedy."""


def without_mark(start: bytes) -> bytes:
    """Returns the first bytes of a text, without a byte order mark. Raises NotUtf8 for those of another encoding."""
    for mark, name in _OTHERS:
        if start.startswith(mark):
            raise NotUtf8(f"not UTF-8 but {name}: save it as text in UTF-8")
    if b"\0" in start[:2]:
        raise NotUtf8("not UTF-8 but UTF-16, or not a text: save it as text in UTF-8")
    return start.removeprefix(codecs.BOM_UTF8)


def text_of(content: bytes) -> str:
    """Decodes a whole file, without a byte order mark. Raises NotUtf8."""
    try:
        return without_mark(content).decode()
    except UnicodeDecodeError as error:
        # The file may hold secrets: the message quotes nothing of it.
        line = content.count(b"\n", 0, error.start) + 1
        raise NotUtf8(f"not UTF-8 in line {line} (at byte {error.start}): save it as text in UTF-8") from error
