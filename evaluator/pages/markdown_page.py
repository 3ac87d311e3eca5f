"""Renders the blocks of a page as Markdown, with tables aligned for a terminal. Pure; writes no file."""

import re
from collections.abc import Iterable, Iterator, Sequence

from evaluator.pages.page_blocks import (
    Block,
    Bullets,
    Caution,
    ChartImage,
    Conclusion,
    FoldedBlocks,
    Heading,
    Listing,
    Prose,
    Sentence,
    Table,
    Verdict,
)
from evaluator.progress import shown


def render_markdown(title: str, blocks: Iterable[Block]) -> str:
    """Renders a page."""
    return "\n\n".join([f"# {title}", *markdown_parts(blocks)]) + "\n"


def markdown_parts(blocks: Iterable[Block]) -> Iterator[str]:
    """Yields the parts of a page; an empty line belongs between two."""
    for block in blocks:
        match block:
            case Heading(text=text):
                yield f"## {text}"
            case Prose(text=text) | Sentence(text=text) | Verdict(text=text):
                yield shown(text)
            case Conclusion(outcome=outcome, reasons=reasons):
                yield f"**{shown(outcome)}** {shown(reasons)}".rstrip()
            case Caution(text=text):
                yield f"**{shown(text)}**"
            case Bullets(items=items):
                yield "\n".join(f"- {shown(item)}" for item in items)
            case Table(rows=rows):
                yield aligned(rows)
            case ChartImage(path=path, shows=shows):
                yield f"![{shows}]({path})"
            case Listing(language=language, text=text):
                # Longer than any backticks within, so that no line of data ends the block.
                fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
                yield f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"
            case FoldedBlocks(summary=summary, blocks=inner):
                yield f"<details><summary>{summary}</summary>"
                yield from markdown_parts(inner)
                yield "</details>"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Renders rows, the header first, as a Markdown table: figures, also with `?`, to the right, words to the left."""
    lines = [""] * (len(rows) + 1)
    for raw in zip(*rows, strict=True):
        column = [" ".join(shown(cell).splitlines()).replace("|", "\\|") for cell in raw]
        width = max(2, *map(len, column))  # the rule of figures is `-:` at least
        figures = all(cell == "–" or cell.lstrip("+-").rstrip("?").replace(".", "", 1).isdigit() for cell in column[1:])
        rule = "-" * (width - 1) + ":" if figures else "-" * width
        cells = [cell.rjust(width) if figures else cell.ljust(width) for cell in column]
        lines = [f"{line}| {cell} " for line, cell in zip(lines, (cells[0], rule, *cells[1:]), strict=True)]
    return "\n".join(f"{line}|" for line in lines)
