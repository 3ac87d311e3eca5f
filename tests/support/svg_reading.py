"""Reads what a chart shows, for tests."""

from xml.etree import ElementTree

from evaluator.pages.svg_chart import text_width


def texts(svg: str | None) -> list[str]:
    """Returns the texts of a drawing, which has no script."""
    assert svg is not None
    assert "script" not in svg
    return [found.text or "" for found in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def cut_texts(svg: str | None) -> list[str]:
    """Returns the texts that reach beyond the left or right edge of a drawing, by the width of the mean character."""
    assert svg is not None
    root = ElementTree.fromstring(svg)
    cut = []
    for one in root.iter("{http://www.w3.org/2000/svg}text"):
        wide = text_width(one.text or "")
        left = float(one.attrib["x"]) - {"start": 0.0, "middle": wide / 2, "end": wide}[one.attrib["text-anchor"]]
        if left < 0 or left + wide > float(root.attrib["width"]):
            cut.append(one.text or "")
    return cut


def elements(svg: str | None, look: str) -> int:
    """Counts the elements of one look."""
    assert svg is not None
    return sum(one.get("class") == look for one in ElementTree.fromstring(svg).iter())
