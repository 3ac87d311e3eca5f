"""Certificates for tests on real sockets, made by the command that `make up SECURE=1` uses."""

import os
import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.certificates import Authority, issue, make_authority

LOCAL = ("localhost", "127.0.0.1")
# What `openssl ca` needs to know of an authority.
AUTHORITY = """
[ca]
default_ca = tests
[tests]
database = {directory}/index.txt
new_certs_dir = {directory}
rand_serial = yes
unique_subject = no
default_md = sha256
policy = subject
x509_extensions = hosts
[subject]
commonName = supplied
[hosts]
subjectAltName = {names}
"""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path

    @property
    def settings(self) -> dict[str, Any]:
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

    def issue(self, *hosts: str) -> Pair:
        """Makes a certificate for these hosts, or for this machine."""
        self._count += 1
        made = Pair(self._directory / f"{self._count}.pem", self._directory / f"{self._count}.key")
        issue(self.authority, made.cert, made.key, hosts or LOCAL)
        return made

    def issue_expired(self, *hosts: str) -> Pair:
        """Makes a certificate that ended years ago, by `openssl ca`: `openssl x509` of 3.5 makes none."""
        made = self.issue(*hosts)
        request, settings = made.cert.with_suffix(".request"), made.cert.with_suffix(".cnf")
        hosts = hosts or LOCAL
        named = ",".join(f"{'IP' if host[-1].isdigit() else 'DNS'}:{host}" for host in hosts)
        settings.write_text(AUTHORITY.format(directory=self._directory, names=named))
        (self._directory / "index.txt").touch()
        signed = ("-cert", self.ca_file, "-keyfile", self.authority.key, "-in", request, "-out", made.cert)
        dates = ("-startdate", "20200101000000Z", "-enddate", "20200201000000Z")
        for command in (
            ("req", "-new", "-key", made.key, "-out", request, "-subj", f"/CN={hosts[0]}"),
            ("ca", "-batch", "-notext", "-config", settings, *signed, *dates),
        ):
            subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)
        return made
