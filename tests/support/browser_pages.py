"""Opens pages in a real Chromium at a chosen size. Nothing of a page may leave this machine or break its policy."""

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, ConsoleMessage, Page, Request, Route, async_playwright

# Chromium's sandbox needs rights that a container lacks, and names are not looked up: all pages are on 127.0.0.1.
ARGUMENTS = ("--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")
# axe would fetch style sheets again by script, which a strict policy forbids; the page has loaded them.
AXE_OPTIONS = {"resultTypes": ["violations"], "preload": False}
HEIGHT = 900
# Texts with a digit that the reader cannot see, and that no visible cue leads to: each with the box that hides it.
# What is folded away or hidden from sight by design has no rectangle of its own, or stands in `.hidden`.
OUT_OF_SIGHT = r"""
() => {
  const found = [];
  const seen = (one) => {
    const box = one.getBoundingClientRect();
    return one.checkVisibility() && box.width > 0 && box.left >= -1 && box.right <= innerWidth + 1;
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const holder = text.parentElement;
    if (!/\d/.test(text.data) || !holder.checkVisibility() || holder.closest(".hidden, title, desc")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    for (const place of range.getClientRects()) {
      let within = false;
      let fault = "";
      for (let box = holder.closest("div, figure, pre, section, main, body"); box; box = box.parentElement) {
        const style = getComputedStyle(box);
        if (box === document.documentElement || style.overflowX === "visible") continue; // then so is overflowY
        const edge = box.getBoundingClientRect();
        const aside = place.right > edge.left + box.clientWidth + 1 || place.left < edge.left - 1;
        const below = place.bottom > edge.top + box.clientHeight + 1 || place.top < edge.top - 1;
        within ||= aside;
        const cued = style.overflowX !== "hidden" && [...box.querySelectorAll(".cue")].some(seen);
        if (below) fault = "cut off below";
        else if (aside && !cued) fault = "cut off aside without a cue";
      }
      if (!within && (place.right > innerWidth + 1 || place.left < -1)) fault = "outside the window";
      if (fault) found.push(`${fault}: ${text.data.trim().slice(0, 40)}`);
    }
  }
  return found;
}
"""


@asynccontextmanager
async def opened_browser() -> AsyncIterator[Browser]:
    """Starts CHROMIUM, else the one on PATH. Skips the test where there is none."""
    name = os.environ.get("CHROMIUM") or "chromium"
    executable = shutil.which(name)
    if executable is None:
        pytest.skip(f"there is no {name}: `make browser` installs one, or set CHROMIUM to an executable")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened_page(
    browser: Browser, width: int, *, dark: bool = False, script: bool = True, height: int = HEIGHT
) -> AsyncIterator[Page]:
    """Opens a page of this size in pixels, with a storage of its own.

    Fails at its end if it sent a request to another host than 127.0.0.1, met an error in a script, or broke its policy.
    """
    outside: list[str] = []
    faults: list[str] = []
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=script,
    )

    def on_request(request: Request) -> None:
        if leaves_this_machine(request.url):
            outside.append(request.url)

    async def on_route(route: Route) -> None:
        await (route.abort() if leaves_this_machine(route.request.url) else route.continue_())

    def on_console(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            faults.append(message.text)

    context.on("request", on_request)
    context.on("console", on_console)
    context.on("weberror", lambda error: faults.append(str(error.error)))
    await context.route("**/*", on_route)
    try:
        yield await context.new_page()
    finally:
        await context.close()
    assert not outside, f"the page sent requests to {outside}"
    assert not faults, f"the page met {faults}"


def leaves_this_machine(url: str) -> bool:
    """Returns whether a request for this URL goes to another host than 127.0.0.1."""
    parts = urlsplit(url)
    return parts.scheme not in ("data", "blob", "about", "file") and parts.hostname != "127.0.0.1"


async def accessibility_violations(page: Page) -> list[str]:
    """Waits until a page is loaded, and returns what axe finds wrong with it: rule, impact, and the first elements."""
    await page.wait_for_load_state()  # a heading may be seen while the rest is still being read
    found = (await Axe().run(page, options=AXE_OPTIONS)).response["violations"]
    return [f"{one['id']} ({one['impact']}): {[node['target'] for node in one['nodes'][:3]]}" for one in found]


async def overflow_px(page: Page) -> int:
    """Returns by how many pixels a page is wider than its window, which would then scroll sideways."""
    return int(await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


async def figures_out_of_sight(page: Page) -> list[str]:
    """Returns the figures outside the window, or cut off by a box, that no cue in sight leads to."""
    return list(map(str, await page.evaluate(OUT_OF_SIGHT)))
