"""Checks the bound on generations and the message of its refusal."""

import pytest

from services.chassis.errors import Conflict
from services.storage.generation_checks import refuse_one_more

HELD = ("a@1", "a@2", "b@1")


def test_one_too_many_is_refused_and_no_other_is_named() -> None:
    with pytest.raises(Conflict, match=r"^3 .*GET /v1/collections") as refused:
        refuse_one_more("c@1", HELD, 3)
    assert not [one for one in HELD if one in refused.value.detail]
