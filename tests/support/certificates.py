"""Certificates for tests on real sockets, made by the command that `make up SECURE=1` uses."""

import os
import shutil
import ssl
from dataclasses import dataclass
from pathlib import Path

from deploy.certificates import Authority, issue, make_authority

LOCAL = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path

    @property
    def settings(self) -> dict[str, Path]:
        """The settings of a listener with it."""
        return {"tls_cert_file": self.cert, "tls_key_file": self.key}

    def variables(self, process: str) -> dict[str, str]:
        """The environment of a process with it."""
        return {f"{process}_TLS_CERT_FILE": str(self.cert), f"{process}_TLS_KEY_FILE": str(self.key)}

    def replaced_by(self, other: "Pair") -> None:
        """Puts the files of another pair in the place of its own, each as a whole."""
        for mine, theirs in ((self.key, other.key), (self.cert, other.cert)):
            beside = mine.with_suffix(".new")
            shutil.copy2(theirs, beside)
            os.replace(beside, mine)


class Certificates:
    """An authority in a directory, and the certificates that it issued."""

    def __init__(self, directory: Path, name: str = "tests") -> None:
        self._directory = directory / name
        self._directory.mkdir()
        self.authority: Authority = make_authority(self._directory / "ca.pem", self._directory / "ca.key", name)
        self._count = 0

    @property
    def ca_file(self) -> Path:
        """The authority's certificate."""
        return self.authority.cert

    @property
    def context(self) -> ssl.SSLContext:
        """What a client trusts that trusts this authority alone."""
        return ssl.create_default_context(cafile=self.ca_file)

    def issue(self, *hosts: str, days: int = 2) -> Pair:
        """Makes a certificate, of this machine unless told; with negative days it has expired."""
        self._count += 1
        made = Pair(self._directory / f"{self._count}.pem", self._directory / f"{self._count}.key")
        issue(self.authority, made.cert, made.key, hosts or LOCAL, days)
        return made
