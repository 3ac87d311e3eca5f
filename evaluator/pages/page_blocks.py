"""Defines what a page is made of: headings, prose, warnings, tables, charts, lines to copy. Pure; knows no markup.

Markdown and HTML are renderings of these values, so that a table is built once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# A number as tables write it: sign, digits, per cent, `?` behind a doubtful time; or an interval of two.
FIGURE = re.compile(r"–|[+-]?[\d,]*\.?\d+ ?[%?]?( to [+-]?[\d,]*\.?\d+ ?[%?]?)?")

# A cell of more characters is no label: its column may be broken into lines.
LABEL_CHARACTERS = 36


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a section."""

    text: str


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph of our own words, with `code` and [links](of the run's folder). Never holds data."""

    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A paragraph that may hold data: shown as it is, without markup."""

    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence that states its outcome before the first colon and the figures after it. May hold data."""

    text: str

    @property
    def outcome(self) -> str:
        """The words before the figures, with the colon."""
        return "".join(self.text.partition(": ")[:2])

    @property
    def figures(self) -> str:
        """The words behind the outcome."""
        return self.text.partition(": ")[2]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a page leads with: the outcome, and the sentences behind it. May hold data."""

    outcome: str
    reasons: str


@dataclass(frozen=True, slots=True)
class Caution:
    """A sentence that must not be overlooked. May hold data."""

    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences that may hold data."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table. The first of its `rows` is the header; a cell wholly in backticks is code.

    `name` is its own within a page, `caption` states what it shows.
    """

    name: str
    caption: str
    rows: Sequence[Sequence[str]]

    @property
    def header(self) -> Sequence[str]:
        """The names of the columns."""
        return self.rows[0]

    @property
    def body(self) -> Sequence[Sequence[str]]:
        """The rows without the header."""
        return self.rows[1:]

    @property
    def figure_columns(self) -> tuple[bool, ...]:
        """Whether each column holds numbers alone, so that its cells stand to the right."""
        return tuple(
            bool(self.body) and all(FIGURE.fullmatch(row[at]) for row in self.body) for at in range(len(self.header))
        )

    @property
    def column_looks(self) -> tuple[str, ...]:
        """The kind of each column: `figure`, `words` (its cells may be broken into lines), or `label`."""
        longest = [max((len(row[at]) for row in self.body), default=0) for at in range(len(self.header))]
        return tuple(
            "figure" if figures else "words" if length > LABEL_CHARACTERS else "label"
            for figures, length in zip(self.figure_columns, longest, strict=True)
        )


@dataclass(frozen=True, slots=True)
class ChartImage:
    """A chart that lies as a file in the run's folder."""

    path: str
    shows: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines to copy, as they are. May hold data. `language`: theirs, `yaml` for example; `shows`: what they are."""

    language: str
    shows: str
    text: str


@dataclass(frozen=True, slots=True)
class FoldedBlocks:
    """Blocks that a reader opens, because they would fill several screens."""

    summary: str
    blocks: tuple["Block", ...]


Block = (
    Heading | Prose | Sentence | Verdict | Conclusion | Caution | Bullets | Table | ChartImage | Listing | FoldedBlocks
)


def filled(table: Table) -> tuple[Table, ...]:
    """Returns the table where it has rows below its header, else nothing."""
    return (table,) if len(table.rows) > 1 else ()
