"""The base of every wire model, and the text rules that the wire enforces."""

import re
import unicodedata
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from services.contracts.combining_marks import MOST_MARKS, has_overlong_run

# C0 without tab, line feed and carriage return (white space that real queries and documents carry), plus DEL,
# and the surrogates, which no UTF-8 text can carry.
CONTROLS = bytes({*range(0x20), 0x7F} - set(b"\t\n\r"))
UNSENDABLE = re.compile(f"[{re.escape(CONTROLS.decode())}\ud800-\udfff]")

SURROGATES = re.compile("[\ud800-\udfff]")


class Wire(BaseModel):
    """A frozen value of the wire. Unknown keys and non-finite numbers are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def from_answer(cls, content: bytes) -> Self:
        """Parses the answer of another process, at every depth without keys that this release does not know.

        In a rolling upgrade that process may be a release ahead. Raises ValidationError for everything else.
        """
        return cls.model_validate_json(content, extra="ignore")


def _sendable(value: object) -> object:
    # Before pydantic's own check of strings, whose word for a lone surrogate helps nobody.
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
    if not normal.strip():
        raise ValueError("must not be empty or only white space")
    return normal


def _checked_id(text: str) -> str:
    if len(text.encode()) > 512:
        raise ValueError("must be at most 512 bytes in UTF-8")
    return text


QueryText = Annotated[
    str, BeforeValidator(_sendable), Field(min_length=1, max_length=16_384), AfterValidator(_checked_query)
]
DocumentId = Annotated[
    str, BeforeValidator(_sendable), Field(min_length=1, max_length=512), AfterValidator(_checked_id)
]
# What can be written as UTF-8; a JSON escape can carry what cannot.
Text = Annotated[str, BeforeValidator(_encodable)]
# A bool is an int in Python and "10" coerces to one: neither is a count on the wire.
Depth = Annotated[int, Field(strict=True, ge=1, le=1_000)]
Count = Annotated[int, Field(strict=True, ge=0)]
Number = Annotated[float, Field(strict=True)]
Weight = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]
Generation = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}@[1-9][0-9]{0,8}$")]
