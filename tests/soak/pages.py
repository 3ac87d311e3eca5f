"""Times every page of the evaluator's service over a simulated run of many queries and pipelines."""

import asyncio
import html
import os
import re
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from evaluator.evaluation import quality_step
from evaluator.report.report_step import report_step
from evaluator.runs.run_folder import RunFolder
from tests.soak.outcome import Bar, Outcome
from tests.support.large_run import RunSize, write_large_run
from tests.support.processes import ROOT, Process, free_port

QUERIES = 5_000
SIZE = RunSize()
REPEATS = 5
GRADED = 20  # pairs by each judge
WITHIN_S = 1.0
READY_S = 180.0  # a service of a loaded machine
PATIENCE_S = 1_200.0  # for what is computed beside the pages
COLUMNS = ("page", "requests", "median ms", "slowest ms", "kB", "computed beside it, s")
WAITING = "refresh"  # the header of a page that loads itself again

Fields = dict[str, str | Sequence[str]]  # of a form


@dataclass(slots=True)
class PageTimes:
    """The requests of one kind of page. `computed_s`: from the first request until what it shows was there."""

    name: str
    seconds: list[float] = field(default_factory=list)
    size: int = 0  # bytes of the largest answer
    computed_s: float | None = None

    @property
    def row(self) -> tuple[str, ...]:
        times = (f"{1000 * statistics.median(self.seconds):.0f}", f"{1000 * max(self.seconds):.0f}")
        computed = "-" if self.computed_s is None else f"{self.computed_s:.1f}"
        return (self.name, str(len(self.seconds)), *times, f"{self.size / 1000:.0f}", computed)


class TimedReader:
    """A reader with a browser's cookies, who notes how long each page took. One request at a time."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.pages: dict[str, PageTimes] = {}

    async def read(self, name: str, path: str) -> httpx.Response:
        """Asks for a page once. Raises AssertionError for any status but 200."""
        return self._noted(name, *await self._timed("GET", path), status=200)

    async def read_often(self, name: str, path: str) -> httpx.Response:
        """Asks for a page REPEATS times; returns the last answer."""
        for _ in range(REPEATS - 1):
            await self.read(name, path)
        return await self.read(name, path)

    async def wait_for(self, name: str, path: str, fields: Fields | None = None) -> httpx.Response:
        """Asks until the page no longer waits for what it shows; the first pages count under a name of their own.

        With `fields`, begins by sending this form.
        """
        began = time.monotonic()
        answer, seconds = await self._computed(name, path, fields)
        if answer.status_code == 303:  # of figures after judging: the run's page comes next
            answer, seconds = await self._timed("GET", answer.headers["location"])
        self._noted(name, answer, seconds, status=200)
        self.pages[name].computed_s = time.monotonic() - began
        return answer

    async def send_and_wait(self, name: str, path: str, fields: Fields) -> str:
        """Sends a form and asks until what it asks for is there; returns where the last answer leads to."""
        began = time.monotonic()
        answer = self._noted(name, *await self._computed(name, path, fields), status=303)
        self.pages[name].computed_s = time.monotonic() - began
        return str(answer.headers["location"])

    async def _computed(self, name: str, path: str, fields: Fields | None) -> tuple[httpx.Response, float]:
        """Returns the first answer that does not wait for what it shows, and how long that one took."""
        began = time.monotonic()
        answer, seconds = await self._timed("GET" if fields is None else "POST", path, fields)
        while WAITING in answer.headers:
            self._noted(f"{name}, while it is computed", answer, seconds, status=200)
            assert time.monotonic() < began + PATIENCE_S, f"{path} was not there within {PATIENCE_S} s"
            await asyncio.sleep(0.2)
            answer, seconds = await self._timed("GET", answer.headers[WAITING].partition("url=")[2] or path)
        return answer, seconds

    async def send(self, name: str, path: str, fields: Fields) -> str:
        """Sends a form; returns where the answer leads to."""
        answer = self._noted(name, *await self._timed("POST", path, fields), status=303)
        return str(answer.headers["location"])

    async def _timed(self, method: str, path: str, fields: Fields | None = None) -> tuple[httpx.Response, float]:
        began = time.monotonic()
        answer = await self._client.request(method, path, data=fields)
        return answer, time.monotonic() - began

    def _noted(self, name: str, answer: httpx.Response, seconds: float, *, status: int) -> httpx.Response:
        assert answer.status_code == status, f"{answer.request.url}: {answer.status_code}\n{answer.text[:2_000]}"
        page = self.pages.setdefault(name, PageTimes(name))
        page.seconds.append(seconds)
        page.size = max(page.size, len(answer.content))
        return answer


async def read_every_page(client: httpx.AsyncClient, run: str) -> list[PageTimes]:
    """Reads all pages of the service over the only run that it has, as a reader who compares and judges does."""
    reader = TimedReader(client)
    await reader.read_often("list of runs", "/")
    await reader.read_often("a run", f"/runs/{run}")
    await reader.read_often("form of an experiment", "/new")
    compared = f"/compare?runs={run}"
    await reader.wait_for("comparison of its pipelines", compared)
    await reader.read_often("comparison, computed before", compared)
    await _judging(reader, run)
    return list(reader.pages.values())


async def _judging(reader: TimedReader, run: str) -> None:
    await reader.read_often("list of sessions", "/judge")
    form = await reader.read_often("form of a session", f"/judge?runs={run}")
    pipelines = re.findall(r'name="pipelines" value="([^"]+)"', form.text)
    (loaded,) = re.findall(r'name="form" value="([0-9a-f]+)"', form.text)
    fields: Fields = {"token": _token(form), "form": loaded, "runs": run, "pipelines": pipelines}
    fields |= {"top": "10", "seed": "7", "judge": "ann", "order": "pool"}
    first = await reader.send_and_wait("a new session", "/judge", fields)
    session = first.partition("/pair")[0]
    for number, judge in enumerate(("ann", "bob")):
        path = first.replace("judge=ann", f"judge={judge}")
        page = await reader.wait_for("first pair of a judge", path)
        for pair in range(GRADED):
            hidden = re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', page.text)
            deed = {name: html.unescape(value) for name, value in hidden} | {"deed": str((pair + number) % 2)}
            page = await reader.read("next pair", await reader.send("form sent: a grade", f"{session}/pair", {**deed}))
    await reader.wait_for("first pair, order of impact", f"{session}/pair?judge=cyd&order=impact")
    await reader.read_often("next pair, order of impact", f"{session}/pair?judge=cyd&order=impact")
    await reader.wait_for("a session: progress, agreement, disputed pairs", session)
    page = await reader.read_often("a session, read before", session)
    await reader.wait_for("outlook of a session", f"{session}/outlook")
    await reader.read_often("outlook, computed before", f"{session}/outlook")
    by: Fields = {"token": _token(page), "session": session.rpartition("/")[2]}
    await reader.wait_for("a run, measured by a session", f"/measure/{run}", by)


def _token(page: httpx.Response) -> str:
    found = re.search(r'name="token" value="([0-9a-f]+)"', page.text)
    assert found is not None, page.text
    return found[1]


async def run(seed: int, size: int = QUERIES, root: Path = ROOT) -> Outcome:
    """Writes a run of `size` queries and reads every page of a service over it."""
    load = [os.getloadavg()[0]]
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        folder = await asyncio.to_thread(write_large_run, directory, seed, RunSize(size, SIZE.pipelines, SIZE.depth))
        await asyncio.to_thread(quality_step, folder)
        written = await asyncio.to_thread(_report_written, folder)
        load.append(os.getloadavg()[0])
        settings = {"EVALUATOR_RUNS": str(directory / "runs"), "GATEWAY_URL": f"http://127.0.0.1:{free_port()}"}
        service = Process("evaluator", settings, arguments=("serve",), root=root)
        service.start(directory / "evaluator.log")
        try:
            await service.ready(READY_S)
            async with service.client(PATIENCE_S) as client:
                pages = [*await read_every_page(client, folder.path.name), written]
        finally:
            service.kill()
    load.append(os.getloadavg()[0])
    read = [page for page in pages if not page.name.startswith("form sent") and page is not written]
    slowest = max(read, key=lambda page: max(page.seconds))
    told = f"{max(slowest.seconds):.2f} s ({slowest.name})"
    within = max(slowest.seconds) < WITHIN_S
    bars = (Bar(f"every page comes within {WITHIN_S:g} s", told, within, needs_cores=True),)
    return Outcome("pages", _says(size, load), seed, COLUMNS, tuple(page.row for page in pages), bars, ())


def _report_written(folder: RunFolder) -> PageTimes:
    began = time.monotonic()
    report_step(folder)
    size = (folder.path / "report.html").stat().st_size
    return PageTimes("report.html, a file: the whole step `report`", [time.monotonic() - began], size)


def _says(size: int, load: Sequence[float]) -> str:
    return (
        f"The evaluator's service over one simulated run (`tests/support/large_run.py`): {size} queries, "
        f"{SIZE.pipelines} pipelines, {SIZE.depth} hits a query; a session of judging pools the first 10 of all "
        "pipelines. One reader asks for one page after the other, over HTTP, from a process of its own. What takes "
        f"longer than a page may is computed beside it: the page says so and loads itself again. *Computed beside it*: "
        "from the first request until what the page shows was there.\n\n"
        "Forms that are sent, and the step `report`, are no pages; the bar leaves them out. Load of the "
        "machine (1 minute) before, when the run was written, and after the pages: "
        f"{', '.join(f'{one:.1f}' for one in load)}."
    )
