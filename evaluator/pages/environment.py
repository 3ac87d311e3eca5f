"""Owns the templates: how they are found and filled, and the style sheet that all pages share."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from evaluator.pages.inline_markup import cell_html, chart_html, prose_html
from evaluator.svg_chart import style

TEMPLATES = Path(__file__).resolve().parent / "templates"


def page_environment() -> Environment:
    """Returns an environment that escapes every value and refuses one that is not given."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(cell_html=cell_html, chart_html=chart_html, prose_html=prose_html)
    return environment


def style_sheet() -> Markup:
    """Returns the style sheet of every page, with the rules of the charts in it."""
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8") + style(".chart") + "\n")


def watch_script() -> str:
    """Returns the script that keeps the progress of a running experiment up to date."""
    return (TEMPLATES / "watch.js").read_text(encoding="utf-8")
