"""Which Chromium is taken, and what is said where there is none. Stand-ins for programs are shell scripts on PATH."""

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from deploy.browser import BrowserProblem, Chromium, installed_browser, pinned_package, provide

PINNED = pinned_package()


def put(folder: Path, name: str, script: str) -> Path:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return program


def silent(_: str) -> None:
    """Says nothing."""


def test_the_named_browser_is_preferred_to_one_on_path(tmp_path: Path) -> None:
    put(tmp_path, "chromium", "exit 0")
    named = put(tmp_path, "my-chromium", "exit 0")
    assert installed_browser({"PATH": str(tmp_path), "CHROMIUM": str(named)}) == Chromium(named)


@pytest.mark.parametrize("name", ["chromium", "chromium-headless-shell"])
def test_a_browser_on_path_is_used_as_it_is(tmp_path: Path, name: str) -> None:
    program = put(tmp_path, name, "echo Chromium 1.2.3")
    found = provide({"PATH": str(tmp_path)}, silent, tmp_path / "cache")
    assert (found, found.version()) == (Chromium(program), "Chromium 1.2.3")
    assert not (tmp_path / "cache").exists()


def test_a_name_that_is_no_executable_is_refused_although_another_browser_is_there(tmp_path: Path) -> None:
    put(tmp_path, "chromium", "exit 0")
    with pytest.raises(BrowserProblem, match="CHROMIUM=/nowhere"):
        provide({"PATH": str(tmp_path), "CHROMIUM": "/nowhere"}, silent, tmp_path / "cache")


def test_a_browser_that_does_not_run_is_named_with_what_it_says(tmp_path: Path) -> None:
    program = put(tmp_path, "chromium", "echo lacks libnss3.so >&2; exit 127")
    with pytest.raises(BrowserProblem, match=r"/chromium .*libnss3\.so"):
        Chromium(program).version()


def test_a_machine_without_browser_and_npm_is_told_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(BrowserProblem, match="npm"):
        provide({"PATH": str(tmp_path)}, silent, tmp_path / "cache")


def test_an_archive_with_another_digest_is_refused_and_nothing_of_it_stays(tmp_path: Path) -> None:
    archive = tmp_path / "other.tgz"
    with tarfile.open(archive, "w:gz") as package:
        package.addfile(tarfile.TarInfo("package/bin/chromium.br"), io.BytesIO())
    put(tmp_path, "npm", f'/bin/cp {archive} "$4"')
    put(tmp_path, "node", "exit 0")
    digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    with pytest.raises(BrowserProblem) as caught:
        provide({"PATH": str(tmp_path)}, silent, tmp_path / "cache")
    assert f"has the integrity sha512-{digest}" in str(caught.value)
    assert PINNED.integrity in str(caught.value)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [".lock"]
