"""Reads what a chart shows, for tests."""

from xml.etree import ElementTree

from evaluator.pages.plotted_svg import SVG, embedded_svg

PHONE_PX = 390 - 2 * 16  # of a narrow window, without the margins of the page
LEAST_PX = 9.0  # the smallest letters that are read there
CHARACTER = 0.5  # width of the mean character, of the size of the letters


def texts(svg: str | None) -> list[str]:
    """Returns the texts of a chart that a page may hold, that a screen reader knows, and that a telephone shows."""
    assert svg is not None
    embedded_svg(svg, "chart.svg")
    root = ElementTree.fromstring(svg)
    assert root.get("role") == "img"
    assert [child.tag for child in root[:2]] == [f"{SVG}title", f"{SVG}desc"]
    assert all(child.text for child in root[:2])
    width = float(root.attrib["width"])
    shown = list(root.iter(f"{SVG}text"))
    for text in shown:
        size = float(text.attrib["font-size"].removesuffix("px"))
        assert size * PHONE_PX / width > LEAST_PX or width > PHONE_PX * 1.5, text.text
        if not text.get("transform"):
            wide = CHARACTER * size * len(text.text or "")
            left = float(text.attrib["x"]) - {"start": 0.0, "middle": wide / 2, "end": wide}[text.attrib["text-anchor"]]
            assert left > -1, text.text
            assert left + wide < width + 1, text.text
    return [(text.text or "").strip() for text in shown]
