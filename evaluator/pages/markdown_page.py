"""Renders the blocks of a page as Markdown, with tables aligned for a terminal. Pure; writes no file."""

import re
from collections.abc import Iterable, Iterator, Sequence

from evaluator.pages import page_blocks
from evaluator.progress import shown


def render_markdown(title: str, blocks: Iterable[page_blocks.Block]) -> str:
    """Renders a page."""
    return "\n\n".join([f"# {title}", *markdown_parts(blocks)]) + "\n"


def markdown_parts(blocks: Iterable[page_blocks.Block]) -> Iterator[str]:
    """Yields the parts of a page; an empty line belongs between two."""
    for block in blocks:
        match block:
            case page_blocks.Heading(text=text):
                yield f"## {text}"
            case page_blocks.Prose(text=text) | page_blocks.Sentence(text=text) | page_blocks.Verdict(text=text):
                yield shown(text)
            case page_blocks.Conclusion(outcome=outcome, reasons=reasons):
                yield f"**{shown(outcome)}** {shown(reasons)}".rstrip()
            case page_blocks.Caution(text=text):
                yield f"**{shown(text)}**"
            case page_blocks.Bullets(items=items):
                yield "\n".join(f"- {shown(item)}" for item in items)
            case page_blocks.Table(rows=rows):
                yield aligned(rows)
            case page_blocks.ChartImage(path=path, shows=shows):
                yield f"![{shows}]({path})"
            case page_blocks.Listing(language=language, text=text):
                # Longer than any backticks within, so that no line of data ends the block.
                fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
                yield f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"
            case page_blocks.FoldedBlocks(summary=summary, blocks=inner):
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
