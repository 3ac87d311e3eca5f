"""Renders a page as one file that needs no network, no script and no other file."""

import base64
import hashlib
from dataclasses import dataclass

from evaluator.pages.environment import page_environment, style_sheet
from evaluator.pages.sections import PageSection


@dataclass(frozen=True, slots=True)
class StandalonePage:
    """What the template shows: title, facts beneath it, sections.

    `valid`: whether the quality of a run is; `status`: that, and whether its times hold. None: the page judges none.
    `marked`: its times do not hold.
    """

    title: str
    valid: bool | None
    status: str | None
    facts: tuple[tuple[str, str], ...]
    sections: list[PageSection]
    marked: bool = False


def render_standalone(page: StandalonePage, files: str) -> str:
    """Renders the file. `files`: the folder beside it with its tables, with a slash at its end."""
    css = style_sheet()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    template = page_environment().get_template("standalone.html")
    return template.render(page=page, files=files, css=css, style_hash=f"sha256-{digest}")
