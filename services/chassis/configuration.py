"""Owns the error of a process that cannot start with the configuration it was given."""

from collections.abc import Iterator
from contextlib import contextmanager

from services.chassis.errors import ProblemError


class ConfigurationError(Exception):
    """The configuration cannot be used; the message is one sentence that says what to change."""


@contextmanager
def configuration_errors() -> Iterator[None]:
    """Converts ProblemError and OSError, raised while a process builds and opens its parts, to ConfigurationError."""
    try:
        yield
    except ProblemError as error:
        raise ConfigurationError(error.detail) from error
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        raise ConfigurationError(f"{where}{error.strerror or error}") from error
