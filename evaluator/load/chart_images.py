"""Shows the charts in `load/` as images of a page of the run's folder. Draws none of them."""

from collections.abc import Collection, Mapping, Sequence

from evaluator.pages.page_blocks import Block, ChartImage, FoldedBlocks

CHARTS_SHOWN = 4


def chart_images(charts: Mapping[str, str], files: Collection[str]) -> list[Block]:
    """Returns the images of those charts that are there. `charts`: what each shows, by its name in `load/`.

    `files`: paths within the run's folder.
    """
    return [ChartImage(f"load/{name}", shows) for name, shows in charts.items() if f"load/{name}" in files]


def foldable(summary: str, blocks: Sequence[Block]) -> Sequence[Block]:
    """Returns the blocks, behind a summary where they would fill several screens."""
    return blocks if len(blocks) <= CHARTS_SHOWN else (FoldedBlocks(summary, tuple(blocks)),)


def folded(parts: Sequence[str], summary: str) -> list[str]:
    """Returns the parts, behind a summary where they would fill several screens."""
    if len(parts) <= CHARTS_SHOWN:
        return list(parts)
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]
