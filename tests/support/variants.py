"""Marks the variants of slow tests, so that `make test` runs the first ones and `make test-integration` the others."""

from collections.abc import Sequence
from typing import Any

import pytest


def first_now(values: Sequence[object], first: int) -> list[Any]:
    """Returns the values for `parametrize`; those after the `first` ones are marked `integration`."""
    return [*values[:first], *(pytest.param(value, marks=pytest.mark.integration) for value in values[first:])]
