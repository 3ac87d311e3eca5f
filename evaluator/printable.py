"""Owns what of a text can be printed as it is. Knows no format and no table."""

import re

# Controls (C0, C1), directions (Bidi_Control, UAX 9, and the deprecated U+206A to U+206F), the line and paragraph
# separators, interlinear annotations, the noncharacters that XML excludes, surrogates.
_EFFECTS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufff9-\ufffb\ufffe\uffff"
    "\ud800-\udfff]"
)


def shown(text: str) -> str:
    """Returns text as messages, pages and tables can print it: what has no glyph, but an effect, as its escape.

    That is lone surrogates, control characters but for tab and line breaks, and those that change the direction of what
    stands behind them (U+202E): without it, an id could reorder the row of a table.
    """
    return _EFFECTS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
