"""Generations are strings, `name@number`: their parts and their order. Pure."""

from collections.abc import Iterable


def name_of(generation: str) -> str:
    """`scifact` of `scifact@2`."""
    return generation.partition("@")[0]


def by_number(generations: Iterable[str]) -> list[str]:
    """By name, then by number: `a@2` comes before `a@10`."""
    return sorted(generations, key=lambda one: (name_of(one), int(one.partition("@")[2])))
