"""The walkthrough docs/apps/shop.py in a real Chromium, wide and narrow, light and dark."""

from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.support.browser_pages import accessibility_violations, opened_browser, opened_page, overflow_px
from tests.support.served import served
from tests.support.shop_app import opened_shop

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
async def test_a_customer_searches_narrows_down_and_turns_the_page(tmp_path: Path, width: int, dark: bool) -> None:
    async with (
        opened_browser() as browser,
        opened_shop(tmp_path) as app,
        opened_page(browser, width, dark=dark) as page,
    ):
        with served(app) as address:
            await page.goto(address)
            await expect(page.get_by_label("Search")).to_be_focused()
            await page.keyboard.type("kettle")
            await page.keyboard.press("Enter")
            await expect(page.locator("article")).to_have_count(10)
            await page.get_by_role("link", name="blue (19)").click()
            await page.get_by_role("link", name="Next").click()
            await expect(page.get_by_role("link", name="Previous")).to_be_visible()
            assert await page.get_by_label("Search").input_value() == "kettle"
            assert await accessibility_violations(page) == []
            assert await overflow_px(page) == 0
