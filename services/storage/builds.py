"""Refuses requests that a generation's build or state does not allow. Knows no engine."""

from services.chassis.errors import BuildConflict, Conflict


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
