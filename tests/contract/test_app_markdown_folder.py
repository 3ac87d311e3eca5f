"""The walkthrough docs/apps/markdown_folder.py over a gateway with real services: its main(), and its process."""

import asyncio
import contextlib
import io
import os
import runpy
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from retrieval_client import AsyncClient
from tests.support.images import ROOT
from tests.support.real_stack import real_stack
from tests.support.served import on_a_port

APP = runpy.run_path(str(ROOT / "docs" / "apps" / "markdown_folder.py"))
LONG = " ".join(f"w{number}" for number in range(500))


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[str]:
    async with real_stack(tmp_path) as stack, on_a_port(stack.gateway) as address:
        yield address


@pytest.fixture
async def notes(gateway: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(gateway) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, one of them in three chunks."""
    (tmp_path / "notes" / "deep").mkdir(parents=True)
    (tmp_path / "notes" / "README.md").write_text("# Tea\n\nGreen and black.\n")
    (tmp_path / "notes" / "deep" / "CHANGELOG.md").write_text(LONG)
    return tmp_path / "notes"


async def started(gateway: str, folder: Path, *options: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "docs" / "apps" / "markdown_folder.py"), str(folder), "notes"),
        *("--url", gateway, *options),
        env={**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python")},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def ended(gateway: str, folder: Path) -> tuple[int, str]:
    """Makes one pass in this process. Returns its status, and what it wrote."""
    output = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output)
    ):  # fmt: skip
        patch.setattr(sys, "argv", ["markdown_folder.py", str(folder), "notes", "--url", gateway])
        try:
            await asyncio.to_thread(APP["main"])
        except SystemExit as refused:
            return 1, f"{output.getvalue()}{refused.code}"
    return 0, output.getvalue()


async def one_pass(gateway: str, folder: Path) -> str:
    status, output = await ended(gateway, folder)
    assert status == 0, output
    return output.strip()


async def stored(notes: AsyncClient) -> dict[str, str]:
    return {document.id: document.text async for document in notes.documents("notes")}


async def test_a_first_pass_makes_the_folder_searchable_in_overlapping_chunks(
    gateway: str, folder: Path, notes: AsyncClient
) -> None:
    assert await one_pass(gateway, folder) == "sent 4, deleted 0"
    texts = await stored(notes)
    assert sorted(texts) == ["README.md#0", "deep/CHANGELOG.md#0", "deep/CHANGELOG.md#1", "deep/CHANGELOG.md#2"]
    assert texts["deep/CHANGELOG.md#1"].split() == [f"w{number}" for number in range(160, 360)]
    assert texts["deep/CHANGELOG.md#2"].split()[-1] == "w499"
    [hit] = (await notes.search("notes", "black", pipeline="bm25", include=["title", "metadata"])).hits
    assert (hit.id, hit.title, hit.metadata) == ("README.md#0", "Tea", {"path": "README.md"})


async def test_a_later_pass_sends_what_changed_and_deletes_what_is_gone(
    gateway: str, folder: Path, notes: AsyncClient
) -> None:
    await one_pass(gateway, folder)
    assert await one_pass(gateway, folder) == "sent 0, deleted 0"
    (folder / "README.md").write_text("# Tea\n\nWhite.\n")
    (folder / "deep" / "CHANGELOG.md").write_text(" ".join(LONG.split()[:300]))
    assert await one_pass(gateway, folder) == "sent 2, deleted 1"
    assert sorted(await stored(notes)) == ["README.md#0", "deep/CHANGELOG.md#0", "deep/CHANGELOG.md#1"]
    (folder / "deep" / "CHANGELOG.md").unlink()
    assert await one_pass(gateway, folder) == "sent 0, deleted 2"
    assert await stored(notes) == {"README.md#0": "# Tea\n\nWhite."}


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("```sh\n# a comment\n```\n\n# Tea\n\nGreen.\n", "Tea"),
        ("\ufeff---\n# a comment\ntags: [a]\n---\n\nTea\n===\n\nGreen.\n", "Tea"),
        ("    # code\n\n  # Tea #\n\nGreen.\n", "Tea"),
        ("## Second\n\n#tag\n\nGreen.\n", "README.md"),
    ],
)
def test_the_title_is_the_first_heading_by_the_rules_of_markdown(folder: Path, content: str, title: str) -> None:
    (folder / "README.md").write_text(content)
    assert [chunk.title for chunk in APP["chunks"]("README.md", folder / "README.md")] == [title]


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("茶" * 500, [200, 200, 180]),  # a letter is a token of the models
        ("กาน้ำชา" * 50, [200, 190]),
        ("Tea 茶は美味しい。" * 20, [220]),
        ("x" * 3_000, [1_360, 1_360, 880]),
    ],
)
def test_a_chunk_is_no_longer_than_a_model_reads_in_every_script(folder: Path, text: str, chunks: list[int]) -> None:
    (folder / "README.md").write_text(text)
    parts = [chunk.text for chunk in APP["chunks"]("README.md", folder / "README.md")]
    assert [len(part) for part in parts] == chunks
    assert all(part in text for part in parts)


async def test_a_folder_without_markdown_changes_nothing(gateway: str, folder: Path, notes: AsyncClient) -> None:
    await one_pass(gateway, folder)
    status, output = await ended(gateway, folder / "absent")
    assert (status, "nothing is changed" in output) == (1, True)
    assert len(await stored(notes)) == 4


@pytest.mark.integration  # takes seconds
async def test_a_first_pass_that_failed_goes_on_in_the_same_generation(
    gateway: str, folder: Path, notes: AsyncClient
) -> None:
    (folder / "README.md").write_text(f"a{' ' * 8_000_000}b")  # more than a gateway takes
    for _ in range(2):
        process = await started(gateway, folder)
        assert (await process.communicate())[0].startswith(b"document-too-large: document 'README.md#0'")
        assert process.returncode == 1
    (folder / "README.md").write_text("Tea.")
    assert await one_pass(gateway, folder) == "sent 4, deleted 0"
    assert (await notes.collection("notes")).live == "notes@1"


def broken(folder: Path) -> list[str]:
    """Makes what cannot be read, also out of what could be. Returns how each name is told."""
    (folder / "README.md").write_bytes(b"caf\xe9")
    (folder / "deep" / "CHANGELOG.md").unlink()
    (folder / "deep" / "CHANGELOG.md").symlink_to("nowhere")
    os.mkfifo(folder / "DECISIONS.md")
    (folder / "ARCHITECTURE.md").mkdir()  # no file: nothing is told of it
    (folder / "ARCHITECTURE.md" / "README.md").write_text("Read.")
    long, bell, latin = "long" * 63, "bell\x07", os.fsdecode(b"caf\xe9")
    (folder / long).mkdir()
    for name in (f"{long}/{long}", bell, latin):
        (folder / f"{name}.md").write_text("Odd.")
    names = ("README", "deep/CHANGELOG", "DECISIONS", f"{long}/{long}", bell, latin)
    return [repr(f"{folder}/{name}.md") for name in names]


async def test_what_cannot_be_read_is_told_and_stays_in_the_collection(
    gateway: str, folder: Path, notes: AsyncClient
) -> None:
    await one_pass(gateway, folder)
    names = broken(folder)
    *told, last = (await one_pass(gateway, folder)).splitlines()
    assert last == "sent 1, deleted 0"
    assert sorted(line.split(": ")[0] for line in told) == sorted(f"skipped {name}" for name in names)
    assert set(await stored(notes)) > {"README.md#0", "deep/CHANGELOG.md#2", "ARCHITECTURE.md/README.md#0"}
    (folder / "deep" / "CHANGELOG.md").unlink()
    assert "sent 0, deleted 3" in await one_pass(gateway, folder)


async def test_a_folder_that_cannot_be_listed_stays_in_the_collection(
    gateway: str, folder: Path, notes: AsyncClient
) -> None:
    await one_pass(gateway, folder)
    (folder / "deep").chmod(0)
    if os.access(folder / "deep", os.R_OK):
        pytest.skip("root lists every folder")
    output = await one_pass(gateway, folder)
    (folder / "deep").chmod(0o700)
    assert (output.count("\n"), output.endswith("sent 0, deleted 0")) == (1, True)


async def test_control_characters_do_not_send_a_file_again(gateway: str, folder: Path, notes: AsyncClient) -> None:
    (folder / "README.md").write_text("# Tea\0\n\nGreen\fand\x1fblack.\n")
    await one_pass(gateway, folder)
    assert await one_pass(gateway, folder) == "sent 0, deleted 0"
    assert (await stored(notes))["README.md#0"].split() == ["#", "Tea", "Green", "and", "black."]


async def test_it_goes_on_until_it_is_ended(gateway: str, folder: Path) -> None:
    process = await started(gateway, folder, "--every", "0.05")
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"sent 4, deleted 0\n"
        (folder / "DECISIONS.md").write_text("New.")
        while (line := await process.stdout.readline()) == b"sent 0, deleted 0\n":
            pass
        assert line == b"sent 1, deleted 0\n"
        await asyncio.to_thread(folder.rename, folder.with_name("elsewhere"))
        while b"nothing is changed" not in (line := await process.stdout.readline()):
            assert line
        await asyncio.to_thread(folder.with_name("elsewhere").rename, folder)
        while (line := await process.stdout.readline()) != b"sent 0, deleted 0\n":
            assert line
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@pytest.mark.integration  # takes seconds
async def test_a_gateway_that_is_not_there_is_told_in_one_line(folder: Path) -> None:
    process = await started("http://127.0.0.1:9", folder)
    output = (await process.communicate())[0].decode()
    assert (process.returncode, output.count("\n"), output.startswith("unreachable: ")) == (1, 1, True)
