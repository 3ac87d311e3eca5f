"""Whose build a generation is, and what only its state allows. Knows no engine and no vectors."""

from services.chassis.errors import BuildConflict, Conflict


def refuse_other_build(generation: str, held: str | None, wanted: str | None) -> None:
    """Raises BuildConflict when a request is for a build (None: for any) that the generation does not belong to."""
    if wanted is not None and held != wanted:
        raise BuildConflict(
            f"{generation} belongs to another build: it was removed and begun again, or somebody else began it. PUT "
            "the collection again with your build to begin a generation of your own."
        )


def refuse_published(generation: str, *, published: bool) -> None:
    """Raises Conflict for a generation that was to be removed only if searches do not see it."""
    if published:
        raise Conflict(f"{generation} is the published one; it stays.")
