"""Checks that a stamp tells apart all that decides a vector."""

from collections.abc import Callable, Mapping, Set
from typing import TypeVar

from pydantic import BaseModel

from services.inference.profiles import TOKENIZER, EncoderProfile, SparseEncoderProfile

Profile = TypeVar("Profile", bound=BaseModel)
# What tells where a model comes from. `vocabulary` and `width` are of its graph.
ORIGIN = {"kind", "default", "trained_on", "sources", "checkpoint_sha256", "vocabulary", "width"}
ENTRIES = {"session.disable_quant_qdq": "1"}


def other_tokenizer(profile: EncoderProfile | SparseEncoderProfile) -> dict[str, str]:
    """Returns the files of a model with another tokenizer."""
    return {**profile.files, TOKENIZER: "0" * 64}


def expect_each_in_the_stamp(
    profile: Profile,
    stamp_of: Callable[[Profile], Mapping[str, str]],
    deciding: Mapping[str, object],
    elsewhere: Set[str] = frozenset(),
) -> None:
    """Changes each field of a profile in turn. `deciding` has another value of each that decides a vector; those of
    ORIGIN and `elsewhere` are not changed, and no field is left."""
    stamp = stamp_of(profile)
    for field, value in deciding.items():
        assert stamp_of(profile.model_copy(update={field: value})) != stamp, field
    assert {*deciding, *ORIGIN, *elsewhere} >= {*type(profile).model_fields}
