"""Finds the charts of a page that have no table beside them."""

from collections.abc import Iterable, Iterator

from evaluator.pages.page_blocks import Block, ChartImage, FoldedBlocks, Heading, Table


def flat(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yields the blocks, those that are folded too."""
    for block in blocks:
        yield from flat(block.blocks) if isinstance(block, FoldedBlocks) else (block,)


def tables_of(blocks: Iterable[Block]) -> Iterator[Table]:
    """Yields the tables among the blocks, folded ones too."""
    return (block for block in flat(blocks) if isinstance(block, Table))


def charts_without_table(blocks: Iterable[Block]) -> list[str]:
    """Returns the charts that have no table on either side before the next heading; charts in a row share one."""
    marks = [one for one in flat(blocks) if isinstance(one, ChartImage | Table | Heading)]
    alone = []
    for at, one in enumerate(marks):
        if isinstance(one, ChartImage):
            sides = [next((other for other in side if not isinstance(other, ChartImage)), None)
                     for side in (marks[:at][::-1], marks[at + 1 :])]  # fmt: skip
            if not any(isinstance(side, Table) for side in sides):
                alone.append(one.path)
    return alone
