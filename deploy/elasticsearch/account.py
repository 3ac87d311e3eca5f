"""Chooses the user that runs the server, and directories that it can reach. Elasticsearch refuses to run as root."""

import errno
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

from deploy.elasticsearch.problem import SetupProblem
from services.files.disk_writes import write_whole

# For root only, when the repository is below a directory that others cannot enter (/root, mktemp -d). Not /var/tmp:
# systems delete old files there, and collections must survive.
SUBSTITUTE_ROOT = Path("/var/lib/retrieval-stack")
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
    """User arguments of subprocess; all None keeps the current user."""

    user: int | None = None
    group: int | None = None
    extra_groups: tuple[int, ...] | None = None


def identity(account: Account | None) -> Identity:
    """Returns the identity of a child that runs as this account, without our supplementary groups."""
    return Identity() if account is None else Identity(account.uid, account.gid, ())


def server_account() -> Account | None:
    """Returns the user to run the server as when we are root; None otherwise: it then runs as the current user."""
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
    """Returns whether this user can read and enter a path, by trying: mode bits miss parents, ACLs and mounts."""
    try:
        answer = subprocess.run(
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
    return answer.returncode == 0


def make_directory(path: Path, account: Account | None) -> Path:
    """Makes a directory and its parents, as root with mode 755 regardless of the umask; returns it."""
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        missing.mkdir(exist_ok=True)
        if account is not None:
            missing.chmod(0o755)
    return path


def make_private_directory(path: Path, account: Account | None) -> Path:
    """Makes a directory that belongs, with its content, to the server's user alone; returns it.

    That user may rename and link inside of it meanwhile, so everything is changed by descriptor, never by path. Raises
    SetupProblem for a link in the directory's place, and for hard links to files of others.
    """
    path.mkdir(exist_ok=True)
    directory = _open_directory(path)
    try:
        os.fchmod(directory, 0o700)
        if account is not None:
            for place, _, files, folder in os.fwalk(".", dir_fd=directory):
                os.fchown(folder, account.uid, account.gid)
                for name in files:
                    _give_file(name, folder, account, path / place / name)
    finally:
        os.close(directory)
    return path


def remove_tree(path: Path) -> None:
    """Removes a directory that another user may change meanwhile: by descriptor, so that no link is followed."""
    os.close(_open_directory(path))
    if not shutil.rmtree.avoids_symlink_attacks:
        raise SetupProblem(f"This system cannot remove {path} without following links: remove it by hand.")
    shutil.rmtree(path)


def _open_directory(path: Path) -> int:
    """Returns a descriptor of a directory. Raises SetupProblem for a link, also for one to a directory."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise SetupProblem(
            f"{path} is no directory of its own but a link or a file: remove it; nothing was started."
        ) from error


def _give_file(name: str, folder: int, account: Account, path: Path) -> None:
    """Gives a regular file in an open folder to the server's user; leaves links, sockets and pipes as they are."""
    try:
        # Without O_NONBLOCK a pipe would wait for its other end.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=folder)
    except OSError as error:
        # Gone meanwhile; a link; a socket (Linux, others).
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EOPNOTSUPP):
            return
        raise
    try:
        status = os.fstat(file)
        if status.st_uid == account.uid or not stat.S_ISREG(status.st_mode):
            return
        if status.st_nlink > 1:
            raise SetupProblem(
                f"{path} is a hard link to a file that does not belong to {account.name}, who would get that file: "
                "remove the link; nothing was started."
            )
        os.fchown(file, account.uid, account.gid)
    finally:
        os.close(file)


def shared_directory(wanted: Path, account: Account | None) -> Path:
    """Returns the wanted directory, or one shared by all repositories when the server's user cannot enter it.

    For content that does not depend on the repository: a distribution, named by a digest of its sources.
    """
    make_directory(wanted, account)
    if account is None or can_read(account, wanted):
        return wanted
    return make_directory(SUBSTITUTE_ROOT / wanted.name, account)


def private_directory(wanted: Path, account: Account | None) -> Path:
    """Returns the wanted directory, or its own substitute when the server's user cannot enter it.

    The wanted directory then holds a note of the substitute's path and decides its life: once it was emptied (or
    removed and made again), the substitute is emptied too.
    """
    make_directory(wanted, account)
    if account is None or can_read(account, wanted):
        return wanted
    substitute = substitute_directory(wanted)
    marker = wanted / _MARKER
    if not marker.exists() and substitute.exists():
        remove_tree(substitute)
    make_directory(substitute, account)
    write_whole(marker, f"{substitute}\n")
    return substitute


def substitute_directory(wanted: Path) -> Path:
    """Returns the substitute of a directory that the server's user cannot enter."""
    return SUBSTITUTE_ROOT / "data" / hashlib.sha256(str(wanted.resolve()).encode()).hexdigest()[:16]
