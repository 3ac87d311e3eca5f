"""Maps the errors of Qdrant Edge and of its disk to problems. No other module does."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from services.chassis.errors import InsufficientStorage, UpstreamFailed

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
# How Rust formats these numbers in the text of its errors.
_DISK_FULL_TEXTS = tuple(f"(os error {number})" for number in DISK_FULL)


@contextmanager
def edge_errors() -> Iterator[None]:
    """Maps errors of Edge and the disk to UpstreamFailed, or to InsufficientStorage if the disk is full.

    Edge raises plain Exception, and a panic of its Rust code as a BaseException.
    """
    try:
        yield
    except BaseException as error:
        is_panic = type(error).__module__ == "pyo3_runtime"
        if type(error) is not Exception and not isinstance(error, OSError) and not is_panic:
            raise
        if getattr(error, "errno", None) in DISK_FULL or reports_full_disk(str(error)):
            raise InsufficientStorage(
                f"The disk is full: {one_line(error)}. Free some of it; searches go on."
            ) from error
        raise UpstreamFailed(f"The embedded engine failed: {one_line(error)}") from error


def reports_full_disk(text: str) -> bool:
    """Returns whether the text of an error of Edge reports a full disk."""
    return any(words in text for words in _DISK_FULL_TEXTS)


def one_line(error: BaseException) -> str:
    """Returns the text of an error in one line of at most 300 characters."""
    return " ".join(str(error).split())[:300]
