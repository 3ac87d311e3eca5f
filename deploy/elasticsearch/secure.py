"""Sets up TLS and a password for one server, with a self-signed certificate made by the JDK's keytool."""

import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.account import identity, make_private_directory
from deploy.elasticsearch.configuration import ServerDirectories, environment
from deploy.elasticsearch.install import Installation
from deploy.elasticsearch.problem import SetupProblem

SETTINGS: dict[str, str | bool] = {
    "xpack.security.enabled": True,
    "xpack.security.enrollment.enabled": False,
    "xpack.security.http.ssl.enabled": True,
    "xpack.security.http.ssl.keystore.path": "tls/http.p12",
}
_TEN_YEARS = "3650"


@dataclass(frozen=True, slots=True)
class Security:
    """Certificate that a client must trust, and the password of the user `elastic` (new at every start)."""

    ca_file: Path
    password: str


def secure(places: ServerDirectories, installation: Installation) -> Security:
    """Adds a certificate (the same at every start) and a new password to a configured server."""
    kept = make_private_directory(places.config.parent / "tls", installation.account)
    ca_file = places.asked / "ca.pem"
    password_file = kept / "password"
    store = kept / "http.p12"
    if not store.exists():
        password_file.write_text(secrets.token_urlsafe(24), encoding="utf-8")
        keytool = [str(installation.java.home / "bin" / "keytool"), "-keystore", str(store)]
        keytool += ["-storetype", "PKCS12", "-storepass:file", str(password_file), "-alias", "http"]
        names = "san=ip:127.0.0.1,dns:localhost"
        key = ["-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=retrieval-stack", "-validity", _TEN_YEARS]
        _run([*keytool, "-genkeypair", *key, "-ext", names, "-ext", "bc:c=ca:true"])
        _run([*keytool, "-exportcert", "-rfc", "-file", str(ca_file)])
        ca_file.chmod(0o644)
    # Elasticsearch reads files only below its configuration.
    shutil.copytree(kept, places.config / "tls", ignore=shutil.ignore_patterns("password"))
    make_private_directory(places.config, installation.account)
    password = secrets.token_urlsafe(24)
    store_password = password_file.read_text(encoding="utf-8")
    _keystore(places, installation, ["create"], "")
    _keystore(
        places,
        installation,
        ["add", "--stdin", "bootstrap.password", "xpack.security.http.ssl.keystore.secure_password"],
        f"{password}\n{store_password}\n",
    )
    return Security(ca_file=ca_file, password=password)


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
