"""Defines the page of a step that has one of its own (`attribute`, `replay`), and renders it as Markdown. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.pages.markdown_page import markdown_parts
from evaluator.pages.page_blocks import Block


@dataclass(frozen=True, slots=True)
class StepPage:
    """What a step has found. `title`: may hold data. `svgs`: its charts by path within the run's folder.

    `name`: of its files, `<name>.md` and `<name>.html`, and of the folder with its charts and tables.
    """

    name: str
    title: str
    blocks: Sequence[Block]
    svgs: Mapping[str, str]


def render_step_markdown(page: StepPage) -> str:
    """Renders `<name>.md`."""
    return "\n\n".join([f"# {page.title}", *markdown_parts(page.blocks)]) + "\n"
