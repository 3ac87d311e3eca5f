"""Owns how matplotlib draws for us: SVG with texts as texts, the same bytes each time, on light and dark paper.

Colours are literal, so that converters to PDF know them; a style sheet replaces them on dark paper.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from evaluator.pages.svg_chart import DARK, LIGHT

if TYPE_CHECKING:  # matplotlib takes a second to import, and most commands never need it
    from matplotlib.axes import Axes

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
# Where not set, ids in the file are drawn anew each time, and the file has the date of its making.
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "evaluator.analyses",
    "font.size": 10,
    "text.color": LIGHT["ink"],
    "axes.labelcolor": LIGHT["soft"],
    "axes.titlecolor": LIGHT["ink"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.labelcolor": LIGHT["ink"],
    "figure.facecolor": LIGHT["paper"],
    "axes.facecolor": LIGHT["paper"],
}
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@dataclass
class PlottedImage:
    """An image that is being plotted on its axes; `svg` is the file's content once the block has ended."""

    axes: "Axes"
    svg: str = ""


@contextmanager
def plotted_svg(width: float, height: float, title: str, description: str) -> Iterator[PlottedImage]:
    """Yields the axes of an image of so many inches, and renders what was drawn when the block ends."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # Without the settings of the user's own matplotlibrc.
    with style.context(["default", SETTINGS]):
        figure = Figure(figsize=(width, height), layout="constrained")
        image = PlottedImage(figure.add_subplot())
        image.axes.set_title(title, loc="left", fontweight="bold", fontsize=11)
        yield image
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata=NO_METADATA)
        image.svg = _described(file.getvalue(), title, description)


def dark_paper_style() -> str:
    """Returns the style sheet that replaces the colours of a plot on dark paper, but not on printed one."""
    rules = []
    for name, shade in LIGHT.items():
        # White is paper where a path is filled with it, and ink of a text nowhere.
        rules += [f'{"path" if name == "paper" else ""}[style*="fill: {shade}"]{{fill:{DARK[name]}!important}}']
        rules += [f'[style*="stroke: {shade}"]{{stroke:{DARK[name]}!important}}']
    return (
        "text{font-family:system-ui,'DejaVu Sans',sans-serif!important}"
        f"@media screen and (prefers-color-scheme:dark){{{''.join(rules)}}}"
    )


def _described(content: bytes, title: str, description: str) -> str:
    """Adds title and description for screen readers, and the style sheet."""
    for prefix, name in (("", SVG), ("xlink", XLINK)):
        ElementTree.register_namespace(prefix, name)
    root = ElementTree.fromstring(content)
    root.set("role", "img")
    for at, (kind, text) in enumerate((("title", title), ("desc", description), ("style", dark_paper_style()))):
        element = ElementTree.Element(f"{{{SVG}}}{kind}")
        element.text, element.tail = text, "\n "
        root.insert(at, element)
    return ElementTree.tostring(root, encoding="unicode") + "\n"
