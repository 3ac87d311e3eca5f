"""Checks the bound on generations and the message of its refusal."""

import pytest

from services.chassis.errors import Conflict
from services.storage.quotas import refuse_one_more

HELD = ("a@1", "a@2", "b@1")


def test_one_too_many_is_refused_and_what_may_be_removed_is_named() -> None:
    with pytest.raises(Conflict, match=r"3 generations are here.*unpublished are: a@2.*then begin c@1"):
        refuse_one_more("c@1", HELD, ("a@1", "b@1"), 3)


def test_an_existing_generation_and_one_below_the_bound_are_accepted() -> None:
    refuse_one_more("a@2", HELD, (), 3)
    refuse_one_more("c@1", HELD, (), 4)
