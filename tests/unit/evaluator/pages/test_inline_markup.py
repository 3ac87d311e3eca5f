"""What templates include without escaping it again."""

import pytest

from evaluator.errors import EvaluationError
from evaluator.pages.inline_markup import cell_html, chart_html, code_html, prose_html
from evaluator.pages.svg_chart import Drawing

HOSTILE = "<script>alert(1)</script>"


def drawn(title: str) -> str:
    drawing = Drawing(100, 50, title, HOSTILE)
    drawing.rectangle(1, 2, 3, 4, "b0", 0.5)
    drawing.mark(2, 5, 6)
    return drawing.svg()


def test_prose_has_code_and_links_and_nothing_else() -> None:
    found = prose_html(f"see `a<b>` and [load.md](load.md), not [x](javascript:y) or {HOSTILE}", links=True)
    assert found == (
        'see <code>a&lt;b&gt;</code> and <a href="load.md">load.md</a>, not [x](javascript:y) or '
        "&lt;script&gt;alert(1)&lt;/script&gt;"
    )


@pytest.mark.parametrize("target", ["//host/x", "http://host/x", "javascript:x", "/new", "../up"])
def test_a_link_leads_to_a_file_of_the_folder_alone(target: str) -> None:
    assert "<a" not in prose_html(f"[label]({target})", links=True)


def test_where_links_lead_nowhere_the_file_is_named() -> None:
    assert prose_html("[load.md](load.md)", links=False) == "<code>load.md</code>"


def test_a_cell_in_backticks_is_code_and_any_other_is_escaped() -> None:
    assert cell_html(f"`{HOSTILE}`") == "<code>&lt;script&gt;alert(1)&lt;/script&gt;</code>"
    assert cell_html(HOSTILE) == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_a_chart_keeps_its_texts_escaped_and_leaves_its_style_to_the_page() -> None:
    found = chart_html(drawn(HOSTILE), "charts/x.svg")
    assert "<script" not in found
    assert "<style" not in found
    assert "&lt;script&gt;" in found
    assert found.startswith('<svg viewBox="0 0 100 50" role="img" class="chart narrow">')


def test_only_a_chart_that_fits_a_telephone_is_narrow() -> None:
    narrow, wide = (chart_html(Drawing(width, 50, "t", "d").svg(), "charts/x.svg") for width in (480, 860))
    assert ('class="chart narrow"' in narrow, 'class="chart"' in wide) == (True, True)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("</svg>", "<script>alert(1)</script></svg>", "holds 'script'"),
        ("<rect", '<rect onload="alert(1)"', "holds 'rect'"),
        ("</svg>", '<a href="http://host"><text>x</text></a></svg>', "holds 'a'"),
        ("</svg>", "", "not an SVG file"),
    ],
)
def test_a_file_that_no_chart_of_ours_can_be_is_refused(before: str, after: str, said: str) -> None:
    with pytest.raises(EvaluationError, match=said):
        chart_html(drawn("chart").replace(before, after, 1), "load/x.svg")


def test_code_of_a_sentence_is_marked_up_and_all_else_is_escaped() -> None:
    shown = code_html("run `judge <pool>` for <b>, a lone ` stays")
    assert shown == "run <code>judge &lt;pool&gt;</code> for &lt;b&gt;, a lone ` stays"
