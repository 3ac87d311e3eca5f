"""The check that finds figures out of sight, on pages made to hide one."""

import pytest

from tests.support.browser_pages import figures_out_of_sight, opened_browser, opened_page

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

WIDE = '<div style="width: 900px; text-align: right">0.5</div>'
CUE = '<p class="cue" style="position: sticky; left: 0; width: fit-content">scroll</p>'
HIDDEN = {
    f'<div style="overflow-x: auto">{WIDE}</div>': "cut off aside without a cue",
    f'<div style="overflow-x: auto"><p class="cue" hidden>scroll</p>{WIDE}</div>': "cut off aside without a cue",
    f'<div style="overflow-x: hidden">{CUE}{WIDE}</div>': "cut off aside without a cue",
    '<div style="overflow: auto; height: 30px"><p>none</p><p>0.5</p></div>': "cut off below",
    WIDE: "outside the window",
}
SHOWN = (
    f'<div style="overflow-x: auto">{CUE}{WIDE}</div>',
    "<p>0.5</p>",
    '<p hidden style="margin-left: 900px">0.5</p>',
)


async def test_figures_outside_the_window_or_their_box_are_found_unless_a_cue_leads_to_them() -> None:
    async with opened_browser() as browser, opened_page(browser, 390) as page:
        for content, fault in HIDDEN.items():
            await page.set_content(content)
            assert await figures_out_of_sight(page) == [f"{fault}: 0.5"], content
        for content in SHOWN:
            await page.set_content(content)
            assert await figures_out_of_sight(page) == [], content
