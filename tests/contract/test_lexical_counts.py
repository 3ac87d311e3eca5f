"""Counts of documents, filters and facets that Hypothesis draws, against brute force."""

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.contracts.documents import Document
from services.contracts.filters import Condition, Filter
from services.contracts.matches import CountRequest, Facet, Range
from services.lexical.engine_edge import EdgeEngine
from tests.support.counted_matches import COUNTED, counted
from tests.support.scratch import scratch

TOPICS = st.sampled_from(["a", "b", "B", "é", "😀", "two words", ""])
YEARS = st.integers(1990, 1999) | st.floats(1990, 1999)
WORDS = st.lists(st.sampled_from(["brake", "wheel", "cable", "pad"]), max_size=3).map(" ".join)
DOCUMENTS = st.lists(
    st.builds(
        Document,
        id=st.integers(0, 15).map(str),
        title=WORDS,
        text=WORDS,
        metadata=st.fixed_dictionaries({}, optional={"topic": st.lists(TOPICS).map(tuple), "year": YEARS}),
    ),
    max_size=20,
    unique_by=lambda document: document.id,
)
CONDITIONS = st.builds(Condition, field=st.just("topic"), op=st.just("eq"), value=TOPICS) | st.builds(
    Condition, field=st.just("year"), op=st.sampled_from(["lt", "gte"]), value=YEARS
)
FILTERS = st.none() | st.builds(Filter, any=st.tuples(CONDITIONS, CONDITIONS)) | st.builds(Filter, not_=CONDITIONS)
RANGES = (
    st.lists(YEARS, min_size=2, max_size=2, unique=True).map(sorted).map(lambda two: Range(from_=two[0], to=two[1]))
)
COUNTS = st.builds(
    CountRequest,
    query=WORDS,
    preset=st.sampled_from(["beir", "anserini-flat"]),
    filter=FILTERS,
    exclude_ids=st.lists(st.integers(0, 15).map(str), max_size=2).map(tuple),
    facets=st.tuples(
        st.builds(Facet, field=st.just("topic"), top=st.integers(1, 8)),
        st.builds(Facet, field=st.just("year"), ranges=st.lists(RANGES, min_size=1, max_size=4).map(tuple)),
    ),
    total=st.just(True),
)


@pytest.fixture(scope="module")
def runner() -> Iterator[tuple[asyncio.Runner, EdgeEngine]]:
    with scratch() as directory, asyncio.Runner() as runner:
        engine = EdgeEngine(directory / "lexical")
        yield runner, engine
        runner.run(engine.close())


@settings(max_examples=150, deadline=None)
@given(documents=DOCUMENTS, asked=st.lists(COUNTS, min_size=1, max_size=4))
def test_counts_over_drawn_documents_are_those_of_brute_force(
    runner: tuple[asyncio.Runner, EdgeEngine], documents: list[Document], asked: list[CountRequest]
) -> None:
    """The documents of the examples before are replaced or removed, as those of a live collection are."""
    loop, engine = runner

    async def compare() -> None:
        await engine.begin("notes@1", COUNTED)
        await engine.delete("notes@1", [str(number) for number in range(0, 16, 3)])
        await engine.index("notes@1", documents)
        held = {one.id: one for one in (await engine.get("notes@1", [str(number) for number in range(16)])).documents}
        for one in asked:
            assert await engine.count("notes@1", one) == counted(one, held.values())

    loop.run(compare())
