"""Makes an authority and certificates of listeners, with the command `openssl`. Needs the standard library alone."""

import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from services.files.disk_writes import write_whole

KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
TEN_YEARS = 3_650
# The most that browsers and systems of Apple take.
VALID_DAYS = 825


class CertificateProblem(Exception):
    """No certificate can be made; the message names the reason and what to do."""


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority: `cert` is what callers trust, `key` signs certificates."""

    cert: Path
    key: Path


def make_authority(cert: Path, key: Path, name: str = "retrieval-stack", days: int = TEN_YEARS) -> Authority:
    """Makes an authority. Raises CertificateProblem."""
    subject = ["-x509", "-days", str(days), "-subj", f"/CN={name}"]
    extensions = ("basicConstraints=critical,CA:true", "keyUsage=critical,keyCertSign", "subjectKeyIdentifier=hash")
    use = [word for extension in extensions for word in ("-addext", extension)]
    _openssl("req", *KEY, "-keyout", str(key), "-out", str(cert), *subject, *use)
    key.chmod(0o600)
    return Authority(cert, key)


def issue(authority: Authority, cert: Path, key: Path, hosts: Sequence[str]) -> None:
    """Makes a certificate for host names and addresses, and its key. Raises CertificateProblem."""
    names = ",".join(f"{'IP' if _is_address(host) else 'DNS'}:{host}" for host in hosts)
    request, extensions = cert.with_suffix(".request"), cert.with_suffix(".extensions")
    write_whole(
        extensions,
        f"subjectAltName={names}\nbasicConstraints=critical,CA:false\nkeyUsage=critical,digitalSignature\n"
        "extendedKeyUsage=serverAuth\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n",
    )
    try:
        _openssl("req", "-new", *KEY, "-keyout", str(key), "-out", str(request), "-subj", f"/CN={hosts[0]}")
        key.chmod(0o600)
        signed = [
            "-CA",
            str(authority.cert),
            "-CAkey",
            str(authority.key),
            "-set_serial",
            str(secrets.randbits(127)),
            "-days",
            str(VALID_DAYS),
        ]
        _openssl("x509", "-req", "-in", str(request), "-out", str(cert), *signed, "-extfile", str(extensions))
    finally:
        request.unlink(missing_ok=True)
        extensions.unlink(missing_ok=True)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _openssl(*words: str) -> None:
    done = _run(["openssl", *words])
    if done.returncode:
        raise CertificateProblem(
            f"No certificate could be made, because `openssl {words[0]}` failed: {done.stderr.strip()}"
        )


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        # Keys are made with the mode 600 from the start.
        return subprocess.run(command, capture_output=True, text=True, check=False, umask=0o077)
    except FileNotFoundError as error:
        raise CertificateProblem(
            "Certificates are made with the command `openssl`, which is not installed here (Debian, Ubuntu: "
            "apt-get install openssl)."
        ) from error
