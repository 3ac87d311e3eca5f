"""Whether a generation was made of what would now open it."""

from collections.abc import Mapping

from services.chassis.errors import StampMismatch
from services.storage.builds import refuse_other_build
from services.vectorstore.store import Made


def refuse_another(there: Made, wanted: Made) -> None:
    """Raises StampMismatch, naming both, when stamp or declaration differ; BuildConflict when the build does."""
    refuse_stamp(there, wanted.stamp)
    if there.declaration != wanted.declaration:
        raise StampMismatch(
            f"{there.generation} was begun with the declaration {there.declaration.model_dump_json()} and is asked for "
            f"with {wanted.declaration.model_dump_json()}; begin a new generation."
        )
    refuse_other_build(there.generation, there.build, wanted.build)


def refuse_stamp(there: Made, stamp: Mapping[str, str]) -> None:
    """Raises StampMismatch, naming both, when the stamps differ."""
    if dict(there.stamp) == dict(stamp):
        return
    keys = sorted(key for key in {*there.stamp, *stamp} if there.stamp.get(key) != stamp.get(key))
    raise StampMismatch(
        f"{there.generation} was made with {_listed(there.stamp, keys)}, this service has {_listed(stamp, keys)}; "
        "begin a new generation, or start the service as it was."
    )


def _listed(stamp: Mapping[str, str], keys: list[str]) -> str:
    return ", ".join(f"{key}={stamp.get(key, '(none)') or '(empty)'}" for key in keys)
