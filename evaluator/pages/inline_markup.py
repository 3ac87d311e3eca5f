"""Turns our own prose, code cells and charts into HTML that a template may include. Everything else is escaped."""

import re
from xml.etree import ElementTree

from markupsafe import Markup, escape

from evaluator.errors import EvaluationError
from evaluator.printable import shown

# `code` and [label](file of the run's folder): no scheme, no host, no path upwards.
MARKS = re.compile(r"`(?P<code>[^`]+)`|\[(?P<label>[^\]]+)\]\((?P<target>[\w-][\w./-]*)\)")
# All that svg_chart.Drawing writes, but for its style sheet: that of the page holds its rules.
ELEMENTS = frozenset({"svg", "title", "desc", "rect", "polyline", "polygon", "circle", "text"})
ATTRIBUTES = frozenset(
    {"viewBox", "role", "class", "x", "y", "cx", "cy", "r", "width", "height", "points", "fill", "fill-opacity",
     "text-anchor"}
)  # fmt: skip
NARROW_PX = 520  # charts up to this width fit a telephone
_SVG = "{http://www.w3.org/2000/svg}"


def code_html(text: str) -> Markup:
    """Returns a sentence with its `code`, which may hold data. Escapes all else."""
    parts = re.split(r"`([^`]+)`", text)
    return Markup("").join(
        Markup("<code>{}</code>").format(one) if at % 2 else escape(one) for at, one in enumerate(parts)
    )


def prose_html(text: str, links: bool) -> Markup:
    """Returns a paragraph's text with `code` and, where `links` lead somewhere, links. Escapes all else."""
    parts, done = [], 0
    for found in MARKS.finditer(text):
        parts.append(escape(text[done : found.start()]))
        done = found.end()
        if found["code"] is not None:
            parts.append(Markup("<code>{}</code>").format(found["code"]))
        elif links:
            parts.append(Markup('<a href="{}">{}</a>').format(found["target"], found["label"]))
        else:
            parts.append(Markup("<code>{}</code>").format(found["target"]))
    return Markup("").join([*parts, escape(text[done:])])


def cell_html(text: str) -> Markup:
    """Returns a cell: code where it stands wholly in backticks, else escaped text."""
    if len(text) > 2 and text[0] == text[-1] == "`":
        return Markup("<code>{}</code>").format(shown(text[1:-1]))
    return escape(shown(text))


def chart_html(svg: str, path: str) -> Markup:
    """Returns a chart of svg_chart.py for a page: without style sheet and fixed size.

    Raises EvaluationError for a file with any other element: `path` is then not one that this program wrote.
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise EvaluationError(f"{path}: not an SVG file: {error}; write it again with `report` or `load`") from error
    for parent in root.iter():
        for child in list(parent):
            if child.tag == f"{_SVG}style":
                parent.remove(child)
    for element in root.iter():
        name = str(element.tag).removeprefix(_SVG)
        if name not in ELEMENTS or not ATTRIBUTES.issuperset(element.attrib):
            raise EvaluationError(f"{path}: holds {name!r}, which no chart of this program does; remove the file")
        element.tag = name
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    # A narrow one is shown at its own size, a wide one as wide as the text.
    root.set("class", "chart narrow" if float(root.get("viewBox", "0 0 0 0").split()[2]) <= NARROW_PX else "chart")
    return Markup(ElementTree.tostring(root, encoding="unicode"))
