"""Which user runs the server, and directories that this user can reach. Elasticsearch refuses to run as root."""

import hashlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.problem import SetupProblem

# Used by root alone, for a repository below a directory that others cannot enter (/root, mktemp -d). Not /var/tmp:
# systems empty that by age, and what a collection holds must survive.
SUBSTITUTES = Path("/var/lib/retrieval-stack")
_CANDIDATES = ("elasticsearch", "nobody", "daemon")
_MARKER = "kept-elsewhere"


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged user of this machine."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Identity:
    """How subprocess is told whom to become; all None means to stay who we are."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None


def identity(account: Account | None) -> Identity:
    """The identity of a child that runs as this account, without our supplementary groups."""
    return Identity() if account is None else Identity(account.uid, account.gid, ())


def server_account() -> Account | None:
    """The user to run the server as when we are root; None when we are not: then it runs as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in _CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise SetupProblem(
        "Elasticsearch refuses to run as root, and this machine has none of the users "
        f"{', '.join(_CANDIDATES)} to run it as: run this command as an ordinary user; nothing was started."
    )


def can_read(account: Account, path: Path) -> bool:
    """Whether this user can read and enter a path. Asked of the kernel: mode bits miss parents, ACLs and mounts."""
    try:
        asked = subprocess.run(
            ["/bin/sh", "-c", 'test -r "$1" && test -x "$1"', "sh", str(path)],
            user=account.uid,
            group=account.gid,
            extra_groups=[],
            cwd="/",
            check=False,
        )
    except OSError as error:  # a container without CAP_SETUID, or with one user only
        raise SetupProblem(
            f"Elasticsearch refuses to run as root, and here root cannot become {account.name} ({error}): "
            "run this command as an ordinary user; nothing was started."
        ) from error
    return asked.returncode == 0


def make_directory(path: Path, account: Account | None) -> Path:
    """Makes a directory and its parents; as root open to other users, whatever the umask. Returns it."""
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        missing.mkdir(exist_ok=True)
        if account is not None:
            missing.chmod(0o755)
    return path


def own_directory(path: Path, account: Account | None) -> Path:
    """Makes a directory that belongs, with everything in it, to the server's user and to nobody else."""
    path.mkdir(exist_ok=True)
    path.chmod(0o700)
    if account is not None:
        for place, directories, files in os.walk(path):
            for name in (".", *directories, *files):
                os.chown(os.path.join(place, name), account.uid, account.gid, follow_symlinks=False)
    return path


def shared_place(wanted: Path, account: Account | None) -> Path:
    """The wanted directory, or one for all repositories when the server's user cannot enter that.

    For what is the same whoever asks: a distribution, named by a digest of what it was made from.
    """
    make_directory(wanted, account)
    if account is None or can_read(account, wanted):
        return wanted
    return make_directory(SUBSTITUTES / wanted.name, account)


def private_place(wanted: Path, account: Account | None) -> Path:
    """The wanted directory, or one that stands in for it alone when the server's user cannot enter that.

    The wanted one then holds a note of where its content is, and stays in charge: once it was emptied (or removed and
    made again), its substitute is emptied too.
    """
    make_directory(wanted, account)
    if account is None or can_read(account, wanted):
        return wanted
    substitute = substitute_of(wanted)
    marker = wanted / _MARKER
    if not marker.exists() and substitute.exists():
        shutil.rmtree(substitute)
    make_directory(substitute, account)
    marker.write_text(f"{substitute}\n", encoding="utf-8")
    return substitute


def substitute_of(wanted: Path) -> Path:
    """Where the content of a directory stands that the server's user cannot enter."""
    return SUBSTITUTES / "data" / hashlib.sha256(str(wanted.resolve()).encode()).hexdigest()[:16]
