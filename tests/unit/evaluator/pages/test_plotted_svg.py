"""Charts hold their texts as texts, are readable on light and on dark pages, and hold nothing that a page refuses."""

import pytest

from evaluator.errors import EvaluationError
from evaluator.pages.plotted_svg import DARK, LIGHT, WIDTH, chart_style, embedded_svg, plotted_svg, series_look
from tests.support.svg_reading import texts

pytestmark = pytest.mark.usefixtures("laid_out")

HOSTILE = "<script>alert(1)</script>"


def drawn(title: str = "chart") -> str:
    with plotted_svg(WIDTH, 3, title, HOSTILE) as plot:
        plot.axes.plot([1, 2], [3, 4], label="cost in $", **series_look(0, held=False))
        plot.axes.bar([1], [2], color=LIGHT["b1"], alpha=0.5)
        plot.legend()
    return plot.svg


def test_a_chart_is_the_same_each_time_and_holds_its_texts() -> None:
    assert drawn() == drawn()
    assert {"chart", "cost in $"} <= set(texts(drawn()))


def test_a_long_title_is_broken_into_lines_that_a_telephone_shows() -> None:
    assert len([text for text in texts(drawn("quality and latency " * 5)) if "quality" in text]) > 1


def test_every_colour_of_a_chart_has_another_value_on_dark_paper() -> None:
    light, dark = chart_style().split("@media (prefers-color-scheme:dark)")
    for name, shade in LIGHT.items():
        assert f"--{name}:{shade}" in light
        assert f"--{name}:{DARK[name]}" in dark
        assert f'[fill="{shade}"]{{fill:var(--{name})}}' in dark
    assert f'fill="{LIGHT["paper"]}"' in drawn()
    assert f'stroke="{LIGHT["c0"]}"' in drawn()


def test_a_page_holds_a_chart_escaped_and_without_its_style_and_size() -> None:
    embedded = embedded_svg(drawn(HOSTILE), "charts/x.svg")
    assert embedded.startswith('<svg viewBox="0 0 374.4 216" role="img"')
    assert not [part for part in ("<script", "<style", "style=", " id=", "href") if part in embedded]
    assert "&lt;script&gt;" in embedded


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("</svg>", "<script>alert(1)</script></svg>", "holds 'script'"),
        ("<path", '<path onload="alert(1)"', "holds 'path'"),
        ("</svg>", '<a href="http://host"><text>x</text></a></svg>', "holds 'a'"),
        ("</svg>", "", "not an SVG file"),
    ],
)
def test_a_file_that_no_chart_of_ours_can_be_is_refused(before: str, after: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        embedded_svg(drawn().replace(before, after, 1), "load/x.svg")
