"""Generations are strings, `name@number`: their parts and their order. Pure."""

from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

from services.contracts.base import Generation

_GENERATION = TypeAdapter(Generation)


def is_generation(name: str) -> bool:
    """Whether a name is one that a generation can have: `x@y` and `staging.c@1` are not."""
    try:
        _GENERATION.validate_python(name)
    except ValidationError:
        return False
    return True


def name_of(generation: str) -> str:
    """`scifact` of `scifact@2`."""
    return generation.partition("@")[0]


def number_of(generation: str) -> int:
    """2 of `scifact@2`."""
    return int(generation.partition("@")[2])


def in_order(generations: Iterable[str]) -> tuple[str, ...]:
    """By name, then by number: `a@2` comes before `a@10`."""
    return tuple(sorted(generations, key=lambda one: (name_of(one), number_of(one))))
