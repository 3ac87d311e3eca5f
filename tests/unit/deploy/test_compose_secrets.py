"""What `python -m deploy.compose_secrets` makes: once, for its owner alone, and certificates that a client accepts."""

import os
import ssl
import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.certificates import CertificateProblem
from deploy.compose_secrets import LISTENERS, make_secrets
from services.keys.keys_command import keys_command
from tests.support.made_secrets import copy_secrets

CONTAINER_USER = 10_001  # that of deploy/Dockerfile


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("stack") / "secrets"
    copy_secrets(made)
    return made


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def shakes_hands(authority: Path, certificates: Path, listener: str, name: str) -> None:
    """A handshake between a listener and a client that trusts the authority. Raises what the client objects to."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates / f"{listener}.crt", certificates / f"{listener}.key")
    client = ssl.create_default_context(cafile=str(authority))
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].version() == "TLSv1.3"


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_client_that_trusts_the_authority_accepts_a_listener_by_its_name(folder: Path, listener: str) -> None:
    certificates = folder / "certificates"
    for name in (listener, "localhost", "127.0.0.1"):
        shakes_hands(certificates / "ca.crt", certificates, listener, name)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shakes_hands(certificates / "ca.crt", certificates, listener, "elsewhere")


def test_only_the_owner_enters_the_folder_and_containers_may_read_what_they_are_given(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o444}
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_dir()} == {0o755}


def test_the_key_of_the_authority_is_not_kept(folder: Path) -> None:
    assert {path.stem for path in folder.rglob("*.key")} == set(LISTENERS)
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_what_is_missing_is_made_and_the_rest_stays(tmp_path: Path) -> None:
    copy_secrets(tmp_path)
    before = contents(tmp_path)
    assert (make_secrets(tmp_path), contents(tmp_path)) == ([], before)
    (tmp_path / "qdrant_api_key").unlink()
    assert make_secrets(tmp_path) == ["qdrant_api_key", "qdrant.yaml"]
    after = contents(tmp_path)
    assert {name for name in before if before[name] != after[name]} == {"qdrant_api_key", "qdrant.yaml"}


def test_renewing_certificates_makes_another_authority_and_leaves_keys_alone(tmp_path: Path) -> None:
    copy_secrets(tmp_path)
    old = contents(tmp_path)
    (tmp_path / "old.crt").write_bytes(old["certificates/ca.crt"])
    assert make_secrets(tmp_path, renew_certificates=True) == ["certificates"]
    new = contents(tmp_path)
    assert {name for name in old if old[name] == new[name]} == {name for name in old if "certificates" not in name}
    with pytest.raises(ssl.SSLCertVerificationError):
        shakes_hands(tmp_path / "old.crt", tmp_path / "certificates", "gateway", "gateway")


def test_qdrant_is_told_both_keys(folder: Path) -> None:
    told = yaml.safe_load((folder / "qdrant.yaml").read_text(encoding="utf-8"))
    keys = {
        name: (folder / name).read_text(encoding="utf-8").strip()
        for name in ("qdrant_api_key", "qdrant_search_api_key")
    }
    assert told == {"service": dict(zip(("api_key", "read_only_api_key"), keys.values(), strict=True))}
    assert len(set(keys.values())) == 2


def read_in_container(mounted: Path) -> str:
    """The file of keys as the gateway's container reads it: as its user, in the folder that is mounted alone."""
    read = subprocess.run(
        ["cat", "keys.json"],
        cwd=mounted,
        user=CONTAINER_USER,
        group=CONTAINER_USER,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    return read.stdout


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become the user of a container")
@pytest.mark.parametrize("before", ["nothing", "a file for its owner alone"])
def test_the_user_of_the_container_reads_the_keys_before_and_after_one_is_added(
    tmp_path: Path, before: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy_secrets(tmp_path)
    file = tmp_path / "gateway" / "keys.json"
    file.unlink()
    if before != "nothing":
        keys_command(["new", "--file", str(file), "--name", "first"])
    make_secrets(tmp_path)
    assert ("first" in read_in_container(file.parent)) == (before != "nothing")
    keys_command(["new", "--file", str(file), "--name", "shop"])
    assert "shop" in read_in_container(file.parent)
    identity = capsys.readouterr().out.split()[-1].split("_")[1]
    keys_command(["revoke", "--file", str(file), identity])
    assert "revoked" in read_in_container(file.parent)


def test_a_change_of_the_keys_leaves_their_rights_and_the_mounted_folder_as_they_are(tmp_path: Path) -> None:
    copy_secrets(tmp_path)
    file = tmp_path / "gateway" / "keys.json"
    folder, before = file.parent.stat().st_ino, file.stat()
    keys_command(["new", "--file", str(file), "--name", "shop"])
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    # The file is another one, so a mount of the file alone would go on showing the old one.
    assert (after.st_ino != before.st_ino, file.parent.stat().st_ino) == (True, folder)


def test_without_openssl_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CertificateProblem, match="openssl"):
        make_secrets(tmp_path / "secrets")
    assert not (tmp_path / "secrets" / "certificates").exists()
