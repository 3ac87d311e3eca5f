"""`python -m deploy.compose_secrets`: makes the secrets that deploy/compose.yaml mounts, once, in deploy/.secrets.

Owns the authority, the certificates, the token, the keys of Qdrant, and an empty file of the gateway's callers' keys,
which `python -m gateway keys` fills. A running server makes the API keys of Elasticsearch (deploy/elasticsearch/keys).
Needs the standard library and openssl only.
"""

import argparse
import json
import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.certificates import VALID_DAYS, CertificateProblem, issue, make_authority
from deploy.deployables import DEPLOYABLES
from services.files.disk_writes import end_command, whole_file

FOLDER = Path(__file__).resolve().parent / ".secrets"
KEYS = "gateway/keys.json"
LISTENERS = (*DEPLOYABLES, "elasticsearch", "qdrant")
# Compose mounts a file as it is, with its owner and mode, and the containers run as other users: everybody may read the
# files, and only the owner may enter their folder.
_FILE_MODE = 0o444
_FOLDER_MODE = 0o700


def make_secrets(folder: Path, *, renew_certificates: bool = False) -> list[str]:
    """Makes what is missing, and returns the names of what was made. Keys and tokens that exist are never changed.

    Raises CertificateProblem when openssl is missing or fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(_FOLDER_MODE)
    made = []
    for name in ("stack_token", "elastic_password", "qdrant_api_key", "qdrant_search_api_key"):
        if not (folder / name).exists():
            _write(folder / name, secrets.token_urlsafe(32))
            made.append(name)
    if not (folder / "qdrant.yaml").exists() or "qdrant_api_key" in made or "qdrant_search_api_key" in made:
        _write(folder / "qdrant.yaml", _qdrant_configuration(folder))
        made.append("qdrant.yaml")
    # A folder, not a file: a file that is replaced would stay the old one in a container that has it mounted.
    (folder / "gateway").mkdir(exist_ok=True)
    (folder / "gateway").chmod(0o755)
    keys = folder / KEYS
    if not keys.exists():
        _write(keys, json.dumps({"version": 1, "keys": []}))
        made.append(KEYS)
    # A file that `gateway keys new` made is its owner's alone. It holds hashes only, and keeps these rights.
    keys.chmod(_FILE_MODE)
    certificates = folder / "certificates"
    if renew_certificates or not certificates.exists():
        _make_certificates(certificates)
        made.append("certificates")
    return made


def _write(file: Path, text: str) -> None:
    """Writes a whole file or none."""
    with whole_file(file) as opened:
        os.fchmod(opened.fileno(), _FILE_MODE)
        opened.write(f"{text}\n")


def _qdrant_configuration(folder: Path) -> str:
    """Returns the part of Qdrant's configuration that is secret. JSON is YAML."""
    keys = {
        "api_key": (folder / "qdrant_api_key").read_text(encoding="utf-8").strip(),
        "read_only_api_key": (folder / "qdrant_search_api_key").read_text(encoding="utf-8").strip(),
    }
    return json.dumps({"service": keys})


def _make_certificates(certificates: Path) -> None:
    """Makes an authority and a certificate for each listener; the authority's key is forgotten.

    So nothing on the disk can sign another certificate, and renewing makes another authority.
    """
    with tempfile.TemporaryDirectory(prefix=".making-", dir=certificates.parent) as directory:
        making = Path(directory)
        made = making / "certificates"
        made.mkdir()
        # The files lie in the owner's folder already; the folder itself is entered by Compose alone.
        made.chmod(0o755)
        # The authority lasts as long as what it signs.
        authority = make_authority(made / "ca.crt", making / "ca.key", "retrieval-stack authority", VALID_DAYS)
        for name in LISTENERS:
            issue(authority, made / f"{name}.crt", made / f"{name}.key", (name, "localhost", "127.0.0.1"))
        for file in made.iterdir():
            file.chmod(_FILE_MODE)
        if certificates.exists():
            certificates.rename(making / "before")
        made.rename(certificates)


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the secrets and prints what was made."""
    parser = argparse.ArgumentParser(
        prog=".venv/bin/python -m deploy.compose_secrets", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--renew-certificates", action="store_true", help="replace the authority and all certificates")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    try:
        made = make_secrets(FOLDER, renew_certificates=options.renew_certificates)
    except CertificateProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"{FOLDER}: {'made ' + ', '.join(made) if made else 'nothing was missing'}.\n")
    keys = FOLDER / KEYS
    if not json.loads(keys.read_bytes()).get("keys"):
        sys.stdout.write(f"The gateway has no key yet: .venv/bin/python -m gateway keys new --name me --file {keys}\n")
    return 0


if __name__ == "__main__":
    end_command("compose_secrets", main)
