"""Owns the templates: how they are found and filled, and the style sheet that all pages share."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from evaluator.pages.inline_markup import cell_html, chart_html, code_html, prose_html
from evaluator.pages.svg_chart import style

# What stands in the bar above every page: where it leads, and its name.
NAVIGATION = (("/", "Runs"), ("/new", "New experiment"), ("/judge", "Judging"))
# What pages load beside their style sheet, by name, with its media type.
PAGE_FILES = {"watch.js": "text/javascript", "judge.js": "text/javascript", "icon.svg": "image/svg+xml"}
TEMPLATES = Path(__file__).resolve().parent / "templates"


@cache
def page_environment() -> Environment:
    """Returns the environment, one a process: it escapes every value and refuses one that is not given."""
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
    )
    return environment


def style_sheet() -> Markup:
    """Returns the style sheet of every page, with the rules of the charts in it."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8") + style(".chart") + "\n")


def page_file(name: str) -> str:
    """Returns one of PAGE_FILES."""
    return (TEMPLATES / name).read_text(encoding="utf-8")
