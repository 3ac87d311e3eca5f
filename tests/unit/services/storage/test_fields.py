"""Checks the conversion of metadata and filters. The conformance suites check what filters find."""

import math

import pytest

from services.chassis.errors import BadInput
from services.contracts.collections import FieldKind
from services.contracts.documents import MetadataValue
from services.contracts.filters import Condition, Filter, Operand
from services.storage.fields import AnyOf, Within, fields_of, requirements_of

NEW_YEAR_MS = 1_704_067_200_000.0  # 2024-01-01T00:00:00Z


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("keyword", "Brakes", ("Brakes",)),
        ("keyword", "", ("",)),
        ("keyword", ("a", "b"), ("a", "b")),
        ("keyword", False, ("false",)),
        ("keyword", 5, ("5",)),
        ("keyword", 5.0, ("5.0",)),
        ("number", 5, (5.0,)),
        ("number", -0.5, (-0.5,)),
        ("number", 0.1 + 0.2, (0.3,)),
        ("number", 2**53 - 1, (2**53 - 1,)),
        ("date", "2024-01-01", (NEW_YEAR_MS,)),
        ("date", "2024-01-01T00:00:00", (NEW_YEAR_MS,)),
        ("date", "2024-01-01T01:00:00+01:00", (NEW_YEAR_MS,)),
        ("date", "2024-01-01T00:00:00.9999Z", (NEW_YEAR_MS + 999,)),
        ("date", ("2024-01-01", "2024-01-02"), (NEW_YEAR_MS, NEW_YEAR_MS + 86_400_000)),
    ],
)
def test_a_value_is_converted_to_the_form_of_its_kind(kind: FieldKind, value: MetadataValue, kept: object) -> None:
    assert fields_of({"field": value, "other": 1}, {"field": kind}) == {"field": kept}


@pytest.mark.parametrize("value", [(), None])
def test_no_value_is_no_field(value: MetadataValue | None) -> None:
    assert fields_of({} if value is None else {"field": value}, {"field": "keyword"}) == {}


BAD: list[tuple[FieldKind, MetadataValue]] = [
    ("number", "5"), ("number", True), ("number", ("5",)), ("number", 10**400),
    ("date", 2024), ("date", "2024"), ("date", "2024-13-01"), ("date", "01.02.2024"), ("date", "2024-W01-1"),
    ("date", "2024-01-01T25:00:00"), ("date", ("2024-01-01", "soon")), ("date", True), ("keyword", "ü" * 16_384),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), BAD)
def test_a_value_of_another_kind_is_refused_by_name(kind: FieldKind, value: MetadataValue) -> None:
    with pytest.raises(BadInput, match="field"):
        fields_of({"field": value}, {"field": kind})


@pytest.mark.parametrize(("kind", "value"), [one for one in BAD if not isinstance(one[1], tuple)])
def test_an_operand_of_another_kind_is_refused_by_name(kind: FieldKind, value: Operand) -> None:
    with pytest.raises(BadInput, match="field"):
        requirements_of(Filter(all=(Condition(field="field", op="eq", value=value),)), {"field": kind})


def test_a_day_as_an_upper_bound_includes_the_whole_day() -> None:
    asked = Filter(all=(Condition(field="seen", op="lte", value="2024-01-01"),))
    assert requirements_of(asked, {"seen": "date"}) == (Within("seen", ({"lte": NEW_YEAR_MS + 86_399_999},)),)


def test_beyond_a_day_is_the_next_one() -> None:
    asked = Filter(
        any=(Condition(field="seen", op="gt", value="2024-01-01"), Condition(field="seen", op="lt", value="2024-01-01"))
    )
    for moment, beyond in ((NEW_YEAR_MS - 1, True), (NEW_YEAR_MS, False), (NEW_YEAR_MS + 86_400_000, True)):
        (either,) = requirements_of(asked, {"seen": "date"})
        assert isinstance(either, AnyOf)
        spans = [part.ranges[0] for part in either.parts if isinstance(part, Within)]
        assert any(moment < one.get("lt", -math.inf) or moment > one.get("gt", math.inf) for one in spans) is beyond


def test_an_undeclared_field_is_refused_and_the_declared_ones_are_named() -> None:
    asked = Filter(all=(Condition(field="author", op="exists"),))
    with pytest.raises(BadInput, match="topic, year"):
        requirements_of(asked, {"year": "number", "topic": "keyword"})


@pytest.mark.parametrize("value", [2**53 + 1, -(2**60) - 1, (1, 1_234_567_890_123_456_789)])
def test_an_integer_that_equals_its_neighbours_is_refused(value: Operand | tuple[Operand, ...]) -> None:
    asked = Filter(all=(Condition(field="post", op="in" if isinstance(value, tuple) else "eq", value=value),))
    with pytest.raises(BadInput, match=r"post.*keyword"):
        requirements_of(asked, {"post": "number"})


def test_keywords_have_no_order() -> None:
    asked = Filter(all=(Condition(field="topic", op="gte", value="a"),))
    with pytest.raises(BadInput, match="topic"):
        requirements_of(asked, {"topic": "keyword"})
