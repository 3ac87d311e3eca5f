"""What templates include without escaping it again."""

import pytest

from evaluator.pages.html_page import cell_html, code_html, prose_html

HOSTILE = "<script>alert(1)</script>"


def test_prose_has_code_and_links_and_nothing_else() -> None:
    text = f"see `a<b>` and [load.md](load.md), not [x](javascript:y) or {HOSTILE}"
    assert prose_html(text, links=True) == (
        'see <code>a&lt;b&gt;</code> and <a href="load.md">load.md</a>, not [x](javascript:y) or '
        "&lt;script&gt;alert(1)&lt;/script&gt;"
    )
    assert prose_html("[load.md](load.md)", links=False) == "<code>load.md</code>"


@pytest.mark.parametrize("target", ["//host/x", "http://host/x", "javascript:x", "/new", "../up"])
def test_a_link_leads_to_a_file_of_the_folder_alone(target: str) -> None:
    assert "<a" not in prose_html(f"[label]({target})", links=True)


def test_a_cell_in_backticks_is_code_and_any_other_is_escaped() -> None:
    assert cell_html(f"`{HOSTILE}`") == "<code>&lt;script&gt;alert(1)&lt;/script&gt;</code>"
    assert cell_html(HOSTILE) == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_code_of_a_sentence_is_marked_up_and_all_else_is_escaped() -> None:
    shown = code_html("run `judge <pool>` for <b>, a lone ` stays")
    assert shown == "run <code>judge &lt;pool&gt;</code> for &lt;b&gt;, a lone ` stays"
