"""Checks the facets of a count against a declaration, and puts their counts into answers. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from services.chassis.errors import BadInput
from services.contracts.matches import Facet, FacetCounts, RangeCount, ValueCount
from services.storage.fields import Declared, Within, half_open, kind_of


@dataclass(frozen=True, slots=True)
class CheckedFacet:
    """A facet that fits its field. `ranges` are empty where values are counted."""

    request: Facet
    ranges: tuple[Within, ...] = ()

    def of_values(self, counts: Sequence[tuple[str, int]]) -> FacetCounts:
        """Returns the counts of values, given in their order."""
        return FacetCounts(values=tuple(ValueCount(value=value, count=count) for value, count in counts))

    def of_ranges(self, counts: Sequence[int]) -> FacetCounts:
        """Returns the counts of the ranges, given in their order."""
        counted = zip(self.request.ranges or (), counts, strict=True)
        ranges = tuple(RangeCount(from_=bounds.from_, to=bounds.to, count=count) for bounds, count in counted)
        return FacetCounts(ranges=ranges)


def checked_facets(facets: Sequence[Facet], declared: Declared) -> tuple[CheckedFacet, ...]:
    """Returns the facets with their ranges as engines compare them.

    Raises BadInput naming the field and what it takes.
    """
    return tuple(_checked(facet, declared) for facet in facets)


def _checked(facet: Facet, declared: Declared) -> CheckedFacet:
    kind = kind_of(facet.field, declared, "facets")
    if kind == "keyword":
        if facet.ranges is not None:
            raise BadInput(f"facets: {facet.field} is a keyword, which takes top; ranges are for numbers and dates.")
        return CheckedFacet(facet)
    if facet.ranges is None:
        raise BadInput(f"facets: {facet.field} is a {kind}, which takes ranges; values are counted of keywords.")
    return CheckedFacet(facet, tuple(half_open(facet.field, kind, bounds.from_, bounds.to) for bounds in facet.ranges))
