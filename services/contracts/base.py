"""Owns the base class of every wire model and the rules for text and numbers on the wire."""

import re
import sys
import unicodedata
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

# Canonical ordering (NFC) takes quadratic time in the length of a run of combining marks. The bound is that of the
# Stream-Safe Text Format (UAX 15, section 13). No known script comes near it.
MOST_MARKS = 30
# Ends a run of marks and has no glyph: the character that UAX 15 names for this.
GRAPHEME_JOINER = "\u034f"
_FIRST_MARK = 0x300


def stream_safe(text: str) -> str:
    """Splits every run of more than 30 combining marks with joiners, so that normalising is linear.

    Returns any other text unchanged.
    """
    if not has_overlong_run(text):
        return text
    return _FULL_RUN.sub(lambda run: run.group() + GRAPHEME_JOINER, text)


def has_overlong_run(text: str) -> bool:
    """Returns whether the text has a run of more than 30 combining marks."""
    if text.isascii() or not _MARK.search(text[MOST_MARKS :: MOST_MARKS + 1]):
        return False  # a run of 31 covers one of every 31st character: 8 million characters take 10 ms instead of 800
    return _OVERLONG_RUN.search(text) is not None


def _marks() -> str:
    """Returns, as ranges of a regular expression, every character whose decomposition begins with a combining mark."""
    ranges: list[list[int]] = []
    # Planes above 1 hold ideographs and tags, which do not combine.
    for point in range(_FIRST_MARK, min(0x20000, sys.maxunicode)):
        # Three Tibetan vowels (U+0F81 among them) have class 0 but decompose into two marks.
        if unicodedata.combining(unicodedata.normalize("NFD", chr(point))[0]):
            if ranges and ranges[-1][1] == point - 1:
                ranges[-1][1] = point
            else:
                ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_MARKS = _marks()
_MARK = re.compile(f"[{_MARKS}]")
_FULL_RUN = re.compile(f"[{_MARKS}]{{{MOST_MARKS}}}(?=[{_MARKS}])")
_OVERLONG_RUN = re.compile(f"[{_MARKS}]{{{MOST_MARKS + 1}}}")
# C0 without tab, line feed and carriage return, plus DEL and the surrogates, which UTF-8 cannot encode.
CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\r"))
UNSENDABLE = re.compile(f"[{re.escape(CONTROLS.decode())}\ud800-\udfff]")

SURROGATES = re.compile("[\ud800-\udfff]")
MOST_QUERY_CHARACTERS = 16_384


class Wire(BaseModel):
    """A frozen value of the wire. Refuses unknown keys and non-finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def from_answer(cls, content: bytes) -> Self:
        """Parses the answer of another process. Ignores unknown keys at every depth.

        In a rolling upgrade that process may be a release ahead. Raises ValidationError for any other fault.
        """
        return cls.model_validate_json(content, extra="ignore")

    @classmethod
    def from_record(cls, content: bytes | str) -> Self:
        """Parses a record that one of our processes left on the disk. Ignores unknown keys at every depth.

        A later release may have written it. Raises ValidationError for any other fault.
        """
        return cls.model_validate_json(content, extra="ignore")


def _sendable(value: object) -> object:
    # Runs before pydantic's own check of strings, whose message for a lone surrogate is hard to understand.
    if isinstance(value, str) and UNSENDABLE.search(value):
        raise ValueError("must not contain NUL, other control characters or lone surrogates")
    return value


def _encodable(value: object) -> object:
    if isinstance(value, str) and SURROGATES.search(value):
        raise ValueError("must not contain lone surrogates")
    return value


def _checked_query(text: str) -> str:
    if has_overlong_run(text):
        raise ValueError(f"must not stack more than {MOST_MARKS} combining marks on one letter")
    normal = unicodedata.normalize("NFC", text)
    if len(normal) > MOST_QUERY_CHARACTERS:  # U+0958 becomes two; the next process would refuse what this one took
        raise ValueError(f"must be at most {MOST_QUERY_CHARACTERS} characters in Unicode's NFC, not {len(normal)}")
    if not normal.strip():
        raise ValueError("must not be empty or only white space")
    return normal


def _checked_id(text: str) -> str:
    if len(text.encode()) > 512:
        raise ValueError("must be at most 512 bytes in UTF-8")
    return text


# In schemas alone; what is refused is UNSENDABLE.
SENDABLE: dict[str, JsonValue] = {"pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"}
# `Field` comes first: behind a validator, pydantic counts "items" where a string has characters.
QueryText = Annotated[
    str,
    Field(min_length=1, max_length=MOST_QUERY_CHARACTERS, json_schema_extra=SENDABLE),
    BeforeValidator(_sendable),
    AfterValidator(_checked_query),
]
OptionalQuery = Annotated[
    str,
    Field(max_length=MOST_QUERY_CHARACTERS, json_schema_extra=SENDABLE),
    BeforeValidator(_sendable),
    AfterValidator(lambda text: _checked_query(text) if text else text),
]
DocumentId = Annotated[
    str,
    Field(min_length=1, max_length=512, json_schema_extra=SENDABLE),
    BeforeValidator(_sendable),
    AfterValidator(_checked_id),
]
# Text that UTF-8 can encode. A JSON escape can hold a lone surrogate, which it cannot.
Text = Annotated[str, BeforeValidator(_encodable)]
# Strict: a bool is an int in Python and pydantic coerces "10" to one, but neither is a count on the wire.
DEEPEST = 1_000
Depth = Annotated[int, Field(strict=True, ge=1, le=DEEPEST)]
Count = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[float, Field(strict=True)]
Weight = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
NAME = "[a-z0-9][a-z0-9_-]{0,63}"
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
# Of the analysis of words; `cjk` is for Chinese, Japanese and Korean.
Language = Literal[
    "english", "cjk", "danish", "dutch", "finnish", "french", "german", "hungarian", "indonesian", "italian",
    "norwegian", "portuguese", "russian", "spanish", "swedish",
]  # fmt: skip
