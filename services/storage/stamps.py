"""Compares a generation's stamp and declaration with those of a request or a service. Pure."""

from collections.abc import Mapping

from services.chassis.errors import StampMismatch
from services.contracts.collections import CollectionDeclaration


def refuse_other_stamp(generation: str, there: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises StampMismatch if the stamps differ, with both values of every key that differs."""
    keys = sorted(key for key in {*there, *wanted} if there.get(key) != wanted.get(key))
    if keys:
        # Parameters of BM25 contain equals signs themselves (`k1=0.9 b=0.4`).
        sign = ": " if any("=" in value for value in (*there.values(), *wanted.values())) else "="
        made, asked = (_listed(stamp, keys, sign) for stamp in (there, wanted))
        raise StampMismatch(
            f"{generation} was made with {made}, asked for is {asked}; begin a new generation, or declare and "
            "configure this one as it was begun."
        )


def refuse_other_declaration(generation: str, there: CollectionDeclaration, wanted: CollectionDeclaration) -> None:
    """Raises StampMismatch, with both, if the declarations differ in more than the backends."""
    if there.model_copy(update={"backends": wanted.backends}) != wanted:
        raise StampMismatch(
            f"{generation} was begun with the declaration {there.model_dump_json()} and is asked for with "
            f"{wanted.model_dump_json()}; begin a new generation."
        )


def _listed(stamp: Mapping[str, str], keys: list[str], sign: str) -> str:
    return ", ".join(f"{key}{sign}{stamp.get(key, '(none)') or '(empty)'}" for key in keys)
