"""Owns the names of generations, `name@number`: what is valid, the parts and the order. Pure."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from services.contracts.base import NAME

Generation = Annotated[str, Field(pattern=rf"^{NAME}@[1-9][0-9]{{0,8}}$")]

_GENERATION = TypeAdapter(Generation)


def generation_of(name: str, number: int) -> str:
    """Returns `scifact@2` for `scifact` and 2."""
    return f"{name}@{number}"


def is_generation(name: str) -> bool:
    """Returns whether a generation can have this name: `x@y` and `staging.c@1` cannot be one."""
    try:
        _GENERATION.validate_python(name)
    except ValidationError:
        return False
    return True


def name_of(generation: str) -> str:
    """Returns `scifact` for `scifact@2`."""
    return generation.partition("@")[0]


def number_of(generation: str) -> int:
    """Returns 2 for `scifact@2`."""
    return int(generation.partition("@")[2])


def in_order(generations: Iterable[str]) -> tuple[str, ...]:
    """Sorts by name, then by number: `a@2` comes before `a@10`."""
    return tuple(sorted(generations, key=lambda generation: (name_of(generation), number_of(generation))))
