"""Reads what a chart shows, for tests."""

from xml.etree import ElementTree


def texts(svg: str | None) -> list[str]:
    """Returns the texts of a drawing, which has no script."""
    assert svg is not None
    assert "script" not in svg
    return [found.text or "" for found in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def elements(svg: str | None, look: str) -> int:
    """Counts the elements of one look."""
    assert svg is not None
    return sum(one.get("class") == look for one in ElementTree.fromstring(svg).iter())
