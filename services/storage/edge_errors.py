"""The one place that maps the errors of Qdrant Edge, and of the disk under it, to problems."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from services.chassis.errors import InsufficientStorage, UpstreamFailed

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
# How Rust writes them into the text of its errors.
_NO_ROOM_TEXTS = tuple(f"(os error {number})" for number in NO_ROOM)


@contextmanager
def edge_errors() -> Iterator[None]:
    """Raises UpstreamFailed, or InsufficientStorage where the disk is full, for what Edge and the disk raise.

    Edge raises plain Exception, no class of its own, and a panic of its Rust code as a BaseException.
    """
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and not isinstance(error, OSError) and not _is_panic(error):
            raise
        if is_no_room(error):
            raise InsufficientStorage(f"The disk is full: {told(error)}. Free some of it; searches go on.") from error
        raise UpstreamFailed(f"The embedded engine failed: {told(error)}") from error


def is_no_room(error: BaseException) -> bool:
    """Whether the disk, or this user's share of it, is full."""
    return getattr(error, "errno", None) in NO_ROOM or says_no_room(str(error))


def says_no_room(text: str) -> bool:
    """Whether Edge's own words say so."""
    return any(words in text for words in _NO_ROOM_TEXTS)


def told(error: BaseException) -> str:
    """What an error says, in one line."""
    return " ".join(str(error).split())[:300]


def _is_panic(error: BaseException) -> bool:
    return type(error).__module__ == "pyo3_runtime"
