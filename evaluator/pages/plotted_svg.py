"""Draws with matplotlib: SVG with texts as texts, the same bytes each time, on light and dark paper.

Leaves what a chart shows to its caller. Colours are literal, so that converters to PDF know them; a style sheet
replaces them by variables, which have other values on dark paper.
"""

import io
import re
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

from evaluator.errors import EvaluationError
from evaluator.progress import shown

if TYPE_CHECKING:  # matplotlib takes a second to import, and most commands never need it
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

SVG = "{http://www.w3.org/2000/svg}"
HREF = "{http://www.w3.org/1999/xlink}href"
# Colour-blind-safe hues (Okabe and Ito 2008), darkened on white and lightened on black. `b`: areas beneath text.
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "soft": "#59636e", "grid": "#d8dee4",
    "c0": "#0072b2", "c1": "#c44e00", "c2": "#00805d", "c3": "#a3387a", "c4": "#7d6608", "c5": "#555555",
    "b0": "#9ecbe8", "b1": "#f5b895", "b2": "#98d8c0", "b3": "#e3b0d0", "b4": "#e6d57f", "b5": "#c9ced4",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#e6edf3", "soft": "#9da7b3", "grid": "#30363d",
    "c0": "#56b4e9", "c1": "#ff9457", "c2": "#3fcf9f", "c3": "#e58cc0", "c4": "#e0c341", "c5": "#b4bcc5",
    "b0": "#15527a", "b1": "#8a3f0c", "b2": "#0c634a", "b3": "#7a2f5d", "b4": "#665408", "b5": "#484f58",
}  # fmt: skip
COLOURS = 6
MARKERS = "os^DP"
WIDTH = 5.2  # inches of a chart in a page: a telephone shows it whole, with letters of 10 pixels
LAYOUT: Literal["constrained"] | None = "constrained"  # nothing of a chart is cut off or lies upon other parts
CHARACTER = 0.09  # inches of the mean character, for texts that must not be cut
SETTINGS = {
    "svg.fonttype": "none",
    # Where not set, ids in the file are drawn anew each time, and the file has the date of its making.
    "svg.hashsalt": "evaluator",
    "text.parse_math": False,
    "font.size": 10,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.markersize": 5.5,
    "text.color": LIGHT["ink"],
    "axes.edgecolor": LIGHT["soft"],
    "axes.labelcolor": LIGHT["soft"],
    "axes.titlecolor": LIGHT["ink"],
    "xtick.color": LIGHT["soft"],
    "ytick.color": LIGHT["soft"],
    "xtick.labelcolor": LIGHT["ink"],
    "ytick.labelcolor": LIGHT["ink"],
    "grid.color": LIGHT["grid"],
    "figure.facecolor": LIGHT["paper"],
    "axes.facecolor": LIGHT["paper"],
}
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
# Attributes of the shapes and texts of a plot. Nothing in a page refers to another file, to an id, or runs anything.
DRAWN = frozenset(
    {"d", "x", "y", "transform", "fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray",
     "stroke-linejoin", "stroke-linecap", "opacity", "text-anchor", "font-size", "font-weight"}
)  # fmt: skip
ROOT = frozenset({"viewBox", "role", "class", "font-family", "stroke-linejoin"})


@dataclass
class PlottedImage:
    """An image that is being plotted; `svg` is the file's content once the block has ended. `axes`: of its panels."""

    figure: "Figure"
    panels: "tuple[Axes, ...]"
    svg: str = ""

    @property
    def axes(self) -> "Axes":
        """The axes of the first panel."""
        return self.panels[0]

    def legend(self) -> None:
        """Names each labelled artist below all panels."""
        named = [pair for axes in self.panels for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
        if named:
            handles, labels = zip(*named, strict=True)
            columns = int(self.figure.get_figwidth() / (max(map(len, labels)) * CHARACTER + 0.5))
            self.figure.legend(handles, labels, loc="outside lower left", ncols=min(max(columns, 1), len(labels)))


@contextmanager
def plotted_svg(width: float, height: float, title: str, description: str, panels: int = 1) -> Iterator[PlottedImage]:
    """Yields an image of so many inches with panels one below the other; renders what was drawn when the block ends."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # Without the settings of the user's own matplotlibrc.
    with style.context(["default", SETTINGS]):
        figure = Figure(figsize=(width, height), layout=LAYOUT)
        image = PlottedImage(figure, tuple(figure.subplots(panels, squeeze=False).flat))
        headline = textwrap.fill(shown(title), int(width / CHARACTER))
        figure.suptitle(headline, x=0.01, horizontalalignment="left", fontweight="bold", fontsize=11)
        yield image
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata=NO_METADATA)
        image.svg = _flattened(file.getvalue(), shown(title), shown(description))


def series_look(number: int, held: bool = True) -> dict[str, Any]:
    """Returns how matplotlib draws the n-th series: dashed and hollow where its times do not hold."""
    colour = LIGHT[f"c{number % COLOURS}"]
    return {
        "color": colour,
        "marker": MARKERS[number % len(MARKERS)],
        "markerfacecolor": colour if held else LIGHT["paper"],
        "linestyle": "-" if held else "--",
    }


def logarithmic(axis: "Axis", low: float, high: float) -> None:
    """Makes an axis logarithmic from `low` to `high`, with round numbers at its ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis.axes.set(**{f"{axis.axis_name}scale": "log", f"{axis.axis_name}lim": (low, high)})  # type: ignore[attr-defined]
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 500 * low else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: chart_number(value)))


def chart_number(value: float) -> str:
    """Returns a number with three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def chart_style(within: str = "") -> str:
    """Returns the style sheet of every chart; `within`: a selector before each rule, for charts in a page."""
    light, dark = ("".join(f"--{name}:{shade};" for name, shade in colours.items()) for colours in (LIGHT, DARK))
    root = within or "svg"
    rules = [
        f'{within} [{kind}="{shade}"]{{{kind}:var(--{name})}}'.lstrip()
        for name, shade in LIGHT.items()
        for kind in ("fill", "stroke")
    ]
    return (
        f"{root}{{{light}}}@media (prefers-color-scheme:dark){{{root}{{{dark}}}}}@media print{{{root}{{{light}}}}}"
        + "".join(rules)
    )


def embedded_svg(svg: str, path: str) -> str:
    """Returns a chart for a page, which has its style sheet: without fixed size.

    Raises EvaluationError for a file with anything else: `path` is then not one that this release wrote.
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise EvaluationError(f"{path}: not an SVG file: {error}; write it again with `report` or `load`") from error
    for child in root.findall(f"{SVG}style"):
        root.remove(child)
    for size in ("width", "height"):
        root.attrib.pop(size, None)
    root.set("class", "chart")
    for element in root.iter():
        name = str(element.tag).removeprefix(SVG)
        allowed = {"svg": ROOT, "path": DRAWN, "text": DRAWN, "title": frozenset[str](), "desc": frozenset[str]()}
        if name not in allowed or not allowed[name].issuperset(element.attrib):
            raise EvaluationError(f"{path}: holds {name!r}, which no chart of this release does; remove the file")
        element.tag = name
    return ElementTree.tostring(root, encoding="unicode")


def _flattened(content: bytes, title: str, description: str) -> str:
    """Returns a plot as paths and texts alone, without ids, so that a page may hold several of them."""
    plotted = ElementTree.fromstring(content)
    box = plotted.attrib["viewBox"].split()
    root = ElementTree.Element(
        "svg",
        {"xmlns": SVG.strip("{}"), "viewBox": " ".join(box), "width": box[2], "height": box[3], "role": "img",
         "font-family": "system-ui, 'DejaVu Sans', sans-serif", "stroke-linejoin": "round"},
    )  # fmt: skip
    for kind, text in (("title", title), ("desc", description), ("style", chart_style())):
        ElementTree.SubElement(root, kind).text = text
    templates = {f"#{path.get('id')}": path for path in plotted.iter(f"{SVG}path") if path.get("id")}
    for element in plotted.iter():
        match element.tag.removeprefix(SVG):
            case "path" if not element.get("id") and element.get("d"):
                ElementTree.SubElement(root, "path", _attributes(element))
            case "use":
                look = _attributes(templates[element.attrib[HREF]]) | _attributes(element)
                place = {"transform": f"translate({look.pop('x', 0)} {look.pop('y', 0)})"}
                ElementTree.SubElement(root, "path", look | place)
            case "text":
                ElementTree.SubElement(root, "text", _attributes(element)).text = element.text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _attributes(element: ElementTree.Element) -> dict[str, str]:
    """Returns the attributes of a shape, with those of its style, rounded: no page permits a style attribute."""
    style = dict(part.split(": ", 1) for part in element.get("style", "").split("; ") if part)
    known = {name: value for name, value in {**element.attrib, **style}.items() if name in DRAWN}
    if known.get("transform", "").startswith("rotate(-0 "):
        del known["transform"]
    return {name: _rounded(value) if name in ("d", "x", "y", "transform") else value for name, value in known.items()}


def _rounded(numbers: str) -> str:
    return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), " ".join(numbers.split()))
