"""Refuses what a generation's build, state, stamp, declaration or number does not allow. Pure; knows no engine."""

from collections.abc import Collection, Mapping

from services.chassis.errors import BuildConflict, Conflict, StampMismatch
from services.contracts.collections import CollectionDeclaration


def refuse_other_build(generation: str, held: str | None, wanted: str | None) -> None:
    """Raises BuildConflict if the generation does not belong to the requested build (None: any build)."""
    if wanted is not None and held != wanted:
        raise BuildConflict(
            f"{generation} belongs to another build: it was removed and begun again, or somebody else began it. PUT "
            "the collection again with your build to begin a generation of your own."
        )


def refuse_published(generation: str, *, published: bool) -> None:
    """Raises Conflict if a generation that must not be published is."""
    if published:
        raise Conflict(f"{generation} is the published one; it stays.")


DEFAULT_MOST_GENERATIONS = 128


def refuse_one_more(generation: str, held: Collection[str], most: int) -> None:
    """Raises Conflict if a new generation would exceed the bound. Names no other: a caller's key may be bound.

    Concurrent calls may exceed it slightly: it bounds growth, not the exact number.
    """
    if generation in held or len(held) < most:
        return
    raise Conflict(
        f"{len(held)} generations are here, as many as there may be (MOST_GENERATIONS): remove a collection that is "
        f"not needed any more (GET /v1/collections lists what is not published, too), then begin {generation}."
    )


def refuse_other_stamp(generation: str, existing: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises StampMismatch if the stamps differ, with both values of every key that differs."""
    keys = sorted(key for key in {*existing, *wanted} if existing.get(key) != wanted.get(key))
    if keys:
        # Parameters of BM25 contain equals signs themselves (`k1=0.9 b=0.4`).
        sign = ": " if any("=" in value for value in (*existing.values(), *wanted.values())) else "="
        made, requested = (_listed(stamp, keys, sign) for stamp in (existing, wanted))
        raise StampMismatch(
            f"{generation} was made with {made}, and {requested} is requested; begin a new generation, or declare "
            "and configure this one as it was begun."
        )


def refuse_other_declaration(generation: str, existing: CollectionDeclaration, wanted: CollectionDeclaration) -> None:
    """Raises StampMismatch, with both, if the declarations differ in more than the backends."""
    if existing.model_copy(update={"backends": wanted.backends}) != wanted:
        raise StampMismatch(
            f"{generation} was begun with the declaration {existing.model_dump_json()} and is requested with "
            f"{wanted.model_dump_json()}; begin a new generation."
        )


def _listed(stamp: Mapping[str, str], keys: list[str], sign: str) -> str:
    return ", ".join(f"{key}{sign}{stamp.get(key, '(none)') or '(empty)'}" for key in keys)
