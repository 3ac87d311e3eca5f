"""Sets up TLS and a password for one server, with a self-signed certificate made by the JDK's keytool."""

import secrets
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from deploy.elasticsearch.account import identity, make_private_directory
from deploy.elasticsearch.configuration import AUTHORITY, CERTIFICATES, KEYSTORE, ServerDirectories, environment
from deploy.elasticsearch.install import Installation
from deploy.elasticsearch.problem import SetupProblem
from services.files.disk_writes import write_whole

SETTINGS: dict[str, str | bool | list[str]] = {
    "xpack.security.enabled": True,
    "xpack.security.enrollment.enabled": False,
    "xpack.security.http.ssl.enabled": True,
    "xpack.security.http.ssl.keystore.path": f"{CERTIFICATES}/{KEYSTORE}",
    # The port of nodes: who joins as one needs no key. Only who has the certificate's key may.
    "xpack.security.transport.ssl.enabled": True,
    "xpack.security.transport.ssl.client_authentication": "required",
    "xpack.security.transport.ssl.keystore.path": f"{CERTIFICATES}/{KEYSTORE}",
    "xpack.security.transport.ssl.certificate_authorities": [f"{CERTIFICATES}/{AUTHORITY}"],
}
_TEN_YEARS = "3650"
_PASSWORD = "password"
_STORE = "ssl.keystore.secure_password"


@dataclass(frozen=True, slots=True)
class Security:
    """Certificate that a client must trust, and the password of the user `elastic` (new at every start)."""

    ca_file: Path
    password: str = field(repr=False)


def make_certificate(places: ServerDirectories, installation: Installation) -> Path:
    """Returns the folder with the server's certificate and its password, made at the first start.

    It belongs to us, not to the server's user, who could otherwise put a link there that we would follow.
    """
    kept = places.config.parent / "tls"
    make_private_directory(kept, None)
    store, password_file = kept / KEYSTORE, kept / _PASSWORD
    if not store.exists():
        write_whole(password_file, secrets.token_urlsafe(24))
        keytool = [str(installation.java.home / "bin" / "keytool"), "-keystore", str(store)]
        keytool += ["-storetype", "PKCS12", "-storepass:file", str(password_file), "-alias", "http"]
        names = "san=ip:127.0.0.1,dns:localhost"
        key = ["-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=retrieval-stack", "-validity", _TEN_YEARS]
        ca_file = _ca_file(places)
        ca_file.unlink(missing_ok=True)
        _run([*keytool, "-genkeypair", *key, "-ext", names, "-ext", "bc:c=ca:true"])
        _run([*keytool, "-exportcert", "-rfc", "-file", str(ca_file)])
        ca_file.chmod(0o644)
    return kept


def secure(places: ServerDirectories, installation: Installation, kept: Path) -> Security:
    """Gives a configured server the password of its certificate and a new one for the user `elastic`."""
    password = secrets.token_urlsafe(24)
    store_password = (kept / _PASSWORD).read_text(encoding="utf-8")
    ports = [f"xpack.security.{port}.{_STORE}" for port in ("http", "transport")]
    _keystore(places, installation, ["create"], "")
    _keystore(
        places,
        installation,
        ["add", "--stdin", "bootstrap.password", *ports],
        f"{password}\n{store_password}\n{store_password}\n",
    )
    return Security(ca_file=_ca_file(places), password=password)


def _ca_file(places: ServerDirectories) -> Path:
    return places.asked / AUTHORITY


def _keystore(places: ServerDirectories, installation: Installation, words: list[str], given: str) -> None:
    """Runs elasticsearch-keystore as the server's user, with `given` on standard input."""
    command = [str(installation.home / "bin" / "elasticsearch-keystore"), *words]
    who = identity(installation.account)
    result = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=installation.home,
        env=environment(places, installation),
        user=who.user,
        group=who.group,
        extra_groups=who.extra_groups,
    )
    _check(command, result)


def _run(command: list[str]) -> None:
    _check(command, subprocess.run(command, capture_output=True, text=True, check=False))


def _check(command: list[str], result: subprocess.CompletedProcess[str]) -> None:
    if result.returncode != 0:
        raise SetupProblem(
            f"Elasticsearch cannot be secured, because {command[0]} failed: {result.stdout}{result.stderr}".rstrip()
            + "; nothing was started."
        )
