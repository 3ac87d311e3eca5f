"""Draws SVG files without script: shapes, texts, scales, legends. Light, dark and printed by their style alone.

Leaves what a chart shows to its caller. Lengths are pixels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from evaluator.printable import shown

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
SHAPES = ("circle", "square", "triangle", "diamond", "plus")
FONT_PX = 12
# The width of the mean character of a sans-serif font, for texts that must not overlap.
CHARACTER_PX = 6.9
LEGEND_PX = 16
MOST_TICKS = 8  # of a logarithmic axis, before it shows powers of ten alone


def style(within: str = "") -> str:
    """Returns the style sheet of every drawing; `within`: a selector before each rule, for drawings in a page."""

    def rules(*pairs: tuple[str, str]) -> str:
        return "".join(f"{within} {selector}{{{look}}}".lstrip() for selector, look in pairs)

    def variables(colours: dict[str, str]) -> str:
        return f"{within or 'svg'}{{" + "".join(f"--{name}:{value};" for name, value in colours.items()) + "}"

    def shade(kind: str, name: str) -> str:
        # Twice: converters to PDF and PNG often know no variables, and keep the literal colour.
        return f"{kind}:{LIGHT[name]};{kind}:var(--{name})"

    return (
        f"{variables(LIGHT)}@media (prefers-color-scheme:dark){{{variables(DARK)}}}@media print{{{variables(LIGHT)}}}"
        + rules(
            ("text", f"font:{FONT_PX}px system-ui,sans-serif;{shade('fill', 'ink')}"),
            (".title", "font-weight:600;font-size:15px"),
            (".name", "font-weight:600"),
            (".soft", shade("fill", "soft")),
            (".paper", shade("fill", "paper")),
            (".grid", shade("stroke", "grid")),
            (".axis", shade("stroke", "soft")),
            (".band", f"{shade('fill', 'grid')};fill-opacity:.45"),
            (".line", "fill:none;stroke:currentColor;stroke-width:2"),
            (".dashed", "stroke-dasharray:5 4"),
            (".thin", "stroke-width:1"),
            (".mark", "fill:currentColor;stroke:currentColor"),
            (".hollow", f"{shade('fill', 'paper')};stroke:currentColor;stroke-width:1.5"),
            (".part", shade("stroke", "paper")),
            *((f".c{number}", shade("color", f"c{number}")) for number in range(COLOURS)),
            *((f".b{number}", shade("fill", f"b{number}")) for number in range(COLOURS)),
        )
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values between `low` and `high` to pixels, evenly or by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Returns the place of a value; one outside lies at the edge."""
        value = min(max(value, self.low), self.high)
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Returns round values within the scale; of a logarithmic one, also 2 and 5 times powers of ten if few."""
        if self.logarithmic:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for factors in ((1, 2, 5), (1,)):
                found = [factor * 10.0**power for power in powers for factor in factors]
                inside = [value for value in found if self.low * 0.999 <= value <= self.high * 1.001]
                if len(inside) <= MOST_TICKS:
                    break
            return inside
        step = round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def round_step(about: float) -> float:
    """Returns 1, 2, 5 or 10 times a power of ten, not below the given number."""
    power = 10.0 ** math.floor(math.log10(about))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= about * 0.999)


def spread(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Moves places apart so that neighbours are `gap` away or more, in their order, within `low` and `high` if it fits.

    Returns them in the order given.
    """
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    for before, number in zip([None, *order], order, strict=False):
        moved[number] = max(moved[number], low if before is None else moved[before] + gap)
    ceiling = high
    for number in reversed(order):
        moved[number] = min(moved[number], ceiling)
        ceiling = moved[number] - gap
    return moved


def colour(number: int) -> str:
    """Returns the class of the n-th colour; they come again after six."""
    return f"c{number % COLOURS}"


def chart_number(value: float) -> str:
    """Returns a number with three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def text_width(text: str) -> float:
    """Returns about how wide a text is."""
    return len(text) * CHARACTER_PX


class Drawing:
    """An SVG image that is being drawn."""

    def __init__(self, width: float, height: float, title: str, description: str) -> None:
        self.width, self.height = width, height
        self._root = Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {width:g} {height:g}",
                "width": f"{width:g}",
                "height": f"{height:g}",
                "role": "img",
            },
        )
        SubElement(self._root, "title").text = shown(title)
        SubElement(self._root, "desc").text = shown(description)
        SubElement(self._root, "style").text = style()
        self._add("rect", "paper", width="100%", height="100%")
        self.text(16, 24, title, "title")

    def text(self, x: float, y: float, content: str, look: str = "", anchor: str = "start") -> None:
        """Writes a line of text. `anchor`: which of its ends stands at x (start, middle, end)."""
        self._add("text", look, x=_px(x), y=_px(y), **{"text-anchor": anchor}).text = shown(content)

    def line(self, points: Sequence[tuple[float, float]], look: str) -> None:
        """Draws a line through points."""
        self._add("polyline", look, points=" ".join(f"{_px(x)},{_px(y)}" for x, y in points), fill="none")

    def rectangle(self, x: float, y: float, width: float, height: float, look: str, opacity: float = 1.0) -> None:
        """Fills a rectangle."""
        box = {"x": _px(x), "y": _px(y), "width": _px(width), "height": _px(height)}
        self._add("rect", look, **box, **({} if opacity == 1 else {"fill-opacity": f"{opacity:g}"}))

    def area(self, corners: Sequence[tuple[float, float]], look: str) -> None:
        """Fills the area within corners."""
        self._path(look, corners)

    def mark(self, number: int, x: float, y: float, look: str = "mark") -> None:
        """Draws the mark of the n-th series."""
        r = 4.5
        look = f"{look} {colour(number)}"
        match SHAPES[number % len(SHAPES)]:
            case "circle":
                self._add("circle", look, cx=_px(x), cy=_px(y), r=_px(r))
            case "square":
                self._add("rect", look, x=_px(x - 4), y=_px(y - 4), width="8", height="8")
            case "triangle":
                self._path(look, [(x, y - r), (x + r, y + 4), (x - r, y + 4)])
            case "diamond":
                self._path(look, [(x, y - 5.5), (x + 5.5, y), (x, y + 5.5), (x - 5.5, y)])
            case _:
                arm, half = 5.0, 1.6
                quarter = [(half, -arm), (half, -half), (arm, -half)]  # turned three times around the centre
                corners = quarter + [(-b, a) for a, b in quarter] + [(-a, -b) for a, b in quarter]
                self._path(look, [(x + dx, y + dy) for dx, dy in [*corners, *((b, -a) for a, b in quarter)]])

    def dot(self, number: int, x: float, y: float) -> None:
        """Draws a small dot in the colour of the n-th series, for a point among hundreds."""
        self._add("circle", f"mark {colour(number)}", cx=_px(x), cy=_px(y), r="1.5", **{"fill-opacity": ".5"})

    def cross(self, number: int, x: float, y: float) -> None:
        """Draws a cross in the colour of the n-th series."""
        look = f"line {colour(number)}"
        self.line([(x - 4, y - 4), (x + 4, y + 4)], look)
        self.line([(x - 4, y + 4), (x + 4, y - 4)], look)

    def horizontal_axis(self, scale: Scale, y: float, ticks: Sequence[tuple[float, str]], caption: str) -> None:
        """Draws an axis at y, with a text below each tick that leaves room for its neighbours."""
        self.line([(scale.start, y), (scale.end, y)], "axis")
        free_from = -math.inf
        for value, label in ticks:
            x, half = scale.at(value), text_width(label) / 2
            self.line([(x, y), (x, y + 4)], "axis")
            if x - half >= free_from:
                self.text(x, y + 18, label, "soft", "middle")
                free_from = x + half + 8
        if caption:
            self.text((scale.start + scale.end) / 2, y + 38, caption, "soft", "middle")

    def vertical_axis(self, scale: Scale, x: float, right: float, labels: Sequence[tuple[float, str]]) -> None:
        """Writes labels left of x, and draws a grid line from each to `right`."""
        for value, label in labels:
            y = scale.at(value)
            self.line([(x, y), (right, y)], "grid")
            self.text(x - 8, y + 4, label, "soft", "end")

    def series_labels(self, x: float, labels: Sequence[tuple[int, str, float]], low: float, high: float) -> None:
        """Writes names of series (number, name, y) with their marks, moved apart vertically."""
        for (number, name, _), y in zip(labels, spread([y for *_, y in labels], LEGEND_PX, low, high), strict=True):
            self.mark(number, x, y)
            self.text(x + 10, y + 4, name)

    def svg(self) -> str:
        """Returns the file's content."""
        indent(self._root)
        return tostring(self._root, encoding="unicode") + "\n"

    def _path(self, look: str, corners: Sequence[tuple[float, float]]) -> None:
        self._add("polygon", look, points=" ".join(f"{_px(x)},{_px(y)}" for x, y in corners))

    def _add(self, kind: str, look: str, **attributes: str) -> Element:
        return SubElement(self._root, kind, ({"class": look} if look else {}) | attributes)


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
