"""Draws documents and counts over them, and counts by brute force."""

import random
from collections import Counter
from collections.abc import Iterable

from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import Document, MetadataValue
from services.contracts.matches import CountRequest, Facet, FacetCounts, Matches, Range, RangeCount, ValueCount
from tests.support.filter_trees import FILTERED, drawn_filters, drawn_metadata, kept, passes

COUNTED = CollectionDeclaration(presets=("beir", "anserini-flat"), metadata=FILTERED.metadata)
_WORDS = tuple(f"word{number}" for number in range(12))
_YEARS = (-1.50000000000001, -1.5, 0, 3, 2019, 2019.00000000001, 2020.25, 2021)
_DAYS = ("1969-12-31", "2024-05-30", "2024-05-31", "2024-06-01", "2024-06-02")


def drawn_documents(seed: int, count: int) -> dict[str, Document]:
    """Returns `count` documents by id, with words in title and text, and metadata of COUNTED."""
    draw = random.Random(seed)

    def words() -> str:
        return " ".join(draw.choices(_WORDS, [1 / (place + 1) for place in range(12)], k=draw.randrange(4)))

    return {
        one: Document(id=one, title=words(), text=words(), metadata=metadata)
        for one, metadata in drawn_metadata(seed, count).items()
    }


def drawn_counts(seed: int, count: int) -> list[CountRequest]:
    """Returns `count` requests; every second one has no query, every third one no filter, and every
    fifth is among some ids (the first among none)."""
    draw = random.Random(seed)
    filters = drawn_filters(seed, count)
    return [
        CountRequest(
            query=" ".join(draw.choices(_WORDS, k=draw.randint(1, 3))) if place % 2 else "",
            preset=draw.choice(("beir", "anserini-flat", None)),
            filter=filters[place] if place % 3 else None,
            exclude_ids=tuple(f"d{draw.randrange(40):03}" for _ in range(draw.randrange(3))),
            ids=tuple(f"d{draw.randrange(50):03}" for _ in range(place % 25)) if place % 5 == 0 else None,
            facets=(
                Facet(field="topic", top=draw.randint(1, 6)),
                Facet(field="year", ranges=_ranges(draw, _YEARS)),
                Facet(field="day", ranges=_ranges(draw, _DAYS)),
            ),
            total=True,
        )
        for place in range(count)
    ]


def _ranges(draw: random.Random, bounds: tuple[float, ...] | tuple[str, ...]) -> tuple[Range, ...]:
    """Returns ranges that may overlap; the first ones are open."""
    open_ones = [Range(from_=draw.choice(bounds)), Range(to=draw.choice(bounds))]
    pairs = [sorted(draw.sample(range(len(bounds)), 2)) for _ in range(2)]
    return (*open_ones, *(Range(from_=bounds[low], to=bounds[high]) for low, high in pairs))


def counted(asked: CountRequest, held: Iterable[Document]) -> Matches:
    """Returns what a count over these documents has to be."""
    words = set(asked.query.split())
    matching = [
        one
        for one in held
        if (not words or words & {*one.title.split(), *one.text.split()})
        and one.id not in asked.exclude_ids
        and (asked.ids is None or one.id in asked.ids)
        and (asked.filter is None or passes(asked.filter, one.metadata))
    ]
    facets = {facet.field: _facet(facet, [one.metadata for one in matching]) for facet in asked.facets}
    return Matches(total=len(matching) if asked.total else None, facets=facets or None)


def _facet(facet: Facet, held: list[dict[str, MetadataValue]]) -> FacetCounts:
    values = [_values(metadata.get(facet.field)) for metadata in held]
    if facet.ranges is None:
        counts = Counter(str(value) for several in values for value in several)
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[: facet.top]
        return FacetCounts(values=tuple(ValueCount(value=value, count=count) for value, count in ordered))
    counts_of = [sum(any(_within(value, one) for value in several) for several in values) for one in facet.ranges]
    return FacetCounts(
        ranges=tuple(
            RangeCount(from_=one.from_, to=one.to, count=count)
            for one, count in zip(facet.ranges, counts_of, strict=True)
        )
    )


def _values(value: MetadataValue | None) -> set[object]:
    if value is None or isinstance(value, tuple):
        return set(value or ())
    return {value if isinstance(value, str) else kept(value)}


def _within(value: object, asked: Range) -> bool:
    # Days of one form are in the order of their texts.
    low, high = asked.from_, asked.to
    return (low is None or value >= low) and (high is None or value < high)  # type: ignore[operator]  # of one kind
