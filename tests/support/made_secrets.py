"""Copies the secrets of a stack, which are made once per process: openssl runs 23 times for them."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from deploy.compose_secrets import make_secrets


def copy_secrets(folder: Path) -> None:
    """Puts what `make_secrets` makes into a folder."""
    shutil.copytree(_made(), folder, dirs_exist_ok=True)


@functools.cache
def _made() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="secrets-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_secrets(folder)
    return folder
