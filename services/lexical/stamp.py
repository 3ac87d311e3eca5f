"""What decides the answers of a generation, as text that two of them can be compared by. Pure."""

from collections.abc import Mapping

from services.chassis.errors import StampMismatch
from services.contracts.collections import CollectionDeclaration
from services.lexical.presets import declared_presets


def stamp_of(declaration: CollectionDeclaration, analysis: str) -> dict[str, str]:
    """Analysis, presets (in order: the first is the default) with their parameters, and metadata fields."""
    presets = declared_presets(declaration)
    return {
        "analysis": analysis,
        "presets": ",".join(preset.name for preset in presets),
        **{
            f"preset.{preset.name}": f"{preset.match} k1={preset.k1} b={preset.b} tie_breaker={preset.tie_breaker}"
            for preset in presets
        },
        **{f"metadata.{field}": kind for field, kind in sorted(declaration.metadata.items())},
    }


def refuse_other_stamp(generation: str, there: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises StampMismatch, naming what differs on both sides."""
    if dict(there) == dict(wanted):
        return
    keys = sorted(key for key in {*there, *wanted} if there.get(key) != wanted.get(key))
    raise StampMismatch(
        f"{generation} was made with {_listed(there, keys)}, asked for is {_listed(wanted, keys)}; begin a new "
        "generation, or go on as it was begun."
    )


def _listed(stamp: Mapping[str, str], keys: list[str]) -> str:
    return ", ".join(f"{key}: {stamp.get(key, '(none)')}" for key in keys)
