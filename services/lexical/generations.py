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


def by_number(generations: Iterable[str]) -> list[str]:
    """By name, then by number: `a@2` comes before `a@10`."""
    return sorted(generations, key=lambda one: (name_of(one), int(one.partition("@")[2])))
