"""Decides who may begin, fill and publish generations of a collection that somebody else owns. Pure.

The services keep the owner with each generation, so it is known to every gateway and after a restart.
"""

from gateway.collections.history import History
from services.chassis.errors import Forbidden
from services.contracts.collections import build_mark
from services.keys.key_ring import Principal


def owner_of_next(history: History, caller: Principal | None, wanted: str | None) -> str | None:
    """Returns who owns the next generation: whom the caller wants, else who owns the newest one, else the caller.

    `caller` is None where callers need no key. Raises Forbidden if the caller may not begin one.
    """
    if wanted is not None and caller is not None and not caller.has("admin"):
        raise Forbidden("owner: giving a collection to another key needs a key with the scope admin.")
    if not history.highest:
        return wanted or (None if caller is None else caller.id)
    newest = history.generations[-1] if history.generations else None
    owner = None if newest is None else history.owner(newest)
    expect_owner(history.name, owner, caller)
    return wanted or owner or (None if caller is None else caller.id)


def expect_own_build(history: History, token: str | None, caller: Principal | None) -> None:
    """Raises Forbidden if a build that a request names was begun under another owner than the caller.

    Its token alone does not show who began it: a caller may have chosen one that others guess.
    """
    generation = None if token is None else history.generation_of_build(build_mark(token))
    if generation is not None:
        expect_owner(history.name, history.owner(generation), caller)


def expect_owner(name: str, owner: str | None, caller: Principal | None) -> None:
    """Raises Forbidden unless the caller owns the collection, or may change everybody's."""
    if caller is None or caller.has("admin") or caller.id == owner:
        return
    whose = "has no owner that is known" if owner is None else "belongs to another key"
    raise Forbidden(
        f"Collection '{name}' {whose}, and its generations are not this key's: use a key with the scope admin, or ask "
        f'who has one to PUT /v1/collections/{name} with {{"new_generation": true, "owner": "{caller.id}"}}.'
    )
