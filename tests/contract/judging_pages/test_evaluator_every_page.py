"""Every page of the service over one run is there, in the order of a reader who compares and judges."""

import html
import re

import httpx

from tests.support.judging_pages import begun, judged, session_of

LINK = re.compile(r'href="(/[^"#]+)"')


async def test_a_reader_gets_every_page_of_a_run_its_comparison_and_its_judging(
    client: httpx.AsyncClient, run: str
) -> None:
    async def waited(path: str) -> str:
        for _ in range(200):
            answer = await client.get(path)
            if "refresh" not in answer.headers:
                assert answer.status_code == 200, f"{path}: {answer.text[:2_000]}"
                return answer.text
        raise AssertionError(f"{path} was not there")

    pages = [await waited(path) for path in ("/", "/new", "/judge", f"/runs/{run}", f"/compare?runs={run}")]
    first = await begun(client, run)
    pages.append((await judged(client, first, "1", "skip", "0")).text)
    session = f"/judge/{session_of(first)}"
    pages += [await waited(f"{session}/pair?judge=bob&order=impact"), await waited(session)]
    links = {html.unescape(link) for page in pages for link in LINK.findall(page)}
    for link in sorted(links):
        await waited(link)
