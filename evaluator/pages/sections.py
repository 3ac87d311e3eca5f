"""Groups the blocks of a page into sections with anchors, and gives each block a kind that templates ask for. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evaluator.pages.page_blocks import Block, ChartImage, FoldedBlocks, Heading


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block with its kind: `chart`, `folded`, or the name of its class in small letters. `svg`: of a chart."""

    kind: str
    block: Block
    svg: str = ""
    inner: tuple["ShownBlock", ...] = ()


@dataclass(frozen=True, slots=True)
class PageSection:
    """Blocks below a heading. The first section of a page has none."""

    title: str
    anchor: str
    blocks: tuple[ShownBlock, ...]


def page_sections(blocks: Iterable[Block], svgs: Mapping[str, str]) -> list[PageSection]:
    """Groups blocks by their headings. `svgs`: the charts by path; every chart among the blocks is there."""
    groups: list[tuple[str, list[ShownBlock]]] = [("", [])]
    for block in blocks:
        if isinstance(block, Heading):
            groups.append((block.text, []))
        else:
            groups[-1][1].append(_shown(block, svgs))
    return [PageSection(title, _anchor(title), tuple(shown)) for title, shown in groups if title or shown]


def _shown(block: Block, svgs: Mapping[str, str]) -> ShownBlock:
    match block:
        case ChartImage(path=path):
            return ShownBlock("chart", block, svg=svgs[path])
        case FoldedBlocks(blocks=inner):
            return ShownBlock("folded", block, inner=tuple(_shown(one, svgs) for one in inner))
        case _:
            return ShownBlock(type(block).__name__.lower(), block)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "summary"
