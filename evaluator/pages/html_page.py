"""Renders blocks as HTML: sections with anchors, prose, cells and charts within; a page as one file; the templates.

A page as a file needs no network, no script and no other file. Everything that is no markup of ours is escaped.
"""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from evaluator.pages.page_blocks import Block, Caution, Heading
from evaluator.pages.plotted_svg import chart_style, embedded_svg
from evaluator.progress import shown

# What stands in the bar above every page: where it leads, and its name.
NAVIGATION = (("/", "Runs"), ("/new", "New experiment"), ("/judge", "Judging"))
# What pages load beside their style sheet, by name, with its media type.
PAGE_FILES = {"watch.js": "text/javascript", "judge.js": "text/javascript", "icon.svg": "image/svg+xml"}
TEMPLATES = Path(__file__).resolve().parent / "templates"
# `code` and [label](file of the run's folder): no scheme, no host, no path upwards.
MARKS = re.compile(r"`(?P<code>[^`]+)`|\[(?P<label>[^\]]+)\]\((?P<target>[\w-][\w./-]*)\)")


@dataclass(frozen=True, slots=True)
class PageSection:
    """Blocks below a heading, with the charts of the page by path. The first section of a page has no heading."""

    title: str
    anchor: str
    blocks: tuple[Block, ...]
    svgs: Mapping[str, str]

    @property
    def cautions(self) -> int:
        """How many of the blocks must not be overlooked, also while the section is folded."""
        return sum(isinstance(block, Caution) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: in Markdown, as a file and in the service. `title`: may hold data.

    `svgs`: its charts by path within the run's folder. `facts`: of a run; they fold all sections but the first.
    """

    title: str
    blocks: Sequence[Block]
    svgs: Mapping[str, str]
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def sections(self) -> list[PageSection]:
        """The blocks, by their headings."""
        return page_sections(self.blocks, self.svgs)


def page_sections(blocks: Iterable[Block], svgs: Mapping[str, str]) -> list[PageSection]:
    """Groups blocks by their headings. `svgs`: the charts by path; every chart among the blocks is there."""
    groups: list[tuple[str, list[Block]]] = [("", [])]
    for block in blocks:
        if isinstance(block, Heading):
            groups.append((block.text, []))
        else:
            groups[-1][1].append(block)
    return [PageSection(title, _anchor(title), tuple(group), svgs) for title, group in groups if title or group]


def render_standalone(page: Page) -> str:
    """Renders a page as a file."""
    css = style_sheet()
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    template = page_environment().get_template("standalone.html")
    return template.render(page=page, css=css, style_hash=f"sha256-{digest}")


@cache
def page_environment() -> Environment:
    """Returns the environment, one per process: it escapes every value and refuses a name without a value."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(
        navigation=NAVIGATION,
        code_html=code_html,
        cell_html=cell_html,
        chart_html=chart_html,
        prose_html=prose_html,
        kind_of=lambda block: type(block).__name__,
    )
    return environment


def style_sheet() -> Markup:
    """Returns the style sheet of every page, with the rules of the charts in it."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8") + chart_style(".chart") + "\n")


def page_file(name: str) -> str:
    """Returns one of PAGE_FILES."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def code_html(text: str) -> Markup:
    """Returns a sentence with its `code`, which may hold data. Escapes all else."""
    parts = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


def prose_html(text: str, links: bool) -> Markup:
    """Returns a paragraph's text with `code` and, where `links` lead somewhere, links. Escapes all else."""
    parts, done = [], 0
    for mark in MARKS.finditer(text):
        parts.append(escape(text[done : mark.start()]))
        done = mark.end()
        if mark["code"] is None and links:
            parts.append(Markup('<a href="{}">{}</a>').format(mark["target"], mark["label"]))
        else:
            parts.append(Markup("<code>{}</code>").format(mark["code"] or mark["target"]))
    return Markup("").join([*parts, escape(text[done:])])


def cell_html(text: str) -> Markup:
    """Returns a cell: code where it stands wholly in backticks, else escaped text."""
    if len(text) > 2 and text[0] == text[-1] == "`":
        return Markup("<code>{}</code>").format(shown(text[1:-1]))
    return escape(shown(text))


def chart_html(svg: str, path: str) -> Markup:
    """Returns a chart for a page. Raises EvaluationError for a file that this program has not written."""
    return Markup(embedded_svg(svg, path))


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "summary"
