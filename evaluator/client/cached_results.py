"""Reads `X-Cached-Results` of the gateway's answers and sums it up by backend. Pure; the services own the caches."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

from pydantic import Field, FiniteFloat

from services.contracts.base import Count, Wire

CACHED_HEADER = "x-cached-results"
_BACKEND = re.compile(r"([a-z0-9_-]{1,64})=([0-9]{1,9})/([0-9]{1,9})")

# Hits, and results looked up, by backend.
CachedResults = dict[str, tuple[Count, Count]]


class CacheUse(Wire):
    """Results that a backend took from its cache, over the answers of a pipeline."""

    hits: Count
    of: Count  # results looked up
    rate: Annotated[FiniteFloat, Field(ge=0, le=1)]


def read_cached_results(header: str) -> CachedResults:
    """Parses `dense=1/1, reranker=12/100`; leaves out what is not of this form."""
    matches = (_BACKEND.fullmatch(part.strip()) for part in header.split(","))
    return {match[1]: (int(match[2]), int(match[3])) for match in matches if match}


def sum_cached_results(answers: Iterable[Mapping[str, tuple[int, int]]]) -> dict[str, CacheUse]:
    """Returns hits, lookups and hit rate by backend, over answers of which each may name several."""
    sums: dict[str, tuple[int, int]] = {}
    for answer in answers:
        for backend, (hits, of) in answer.items():
            hits_before, of_before = sums.get(backend, (0, 0))
            sums[backend] = (hits_before + hits, of_before + of)
    return {backend: CacheUse(hits=hits, of=of, rate=hits / of) for backend, (hits, of) in sorted(sums.items()) if of}


def cache_remarks(caches: bool, used: Mapping[str, Mapping[str, CacheUse]]) -> Iterator[str]:
    """Yields remarks on a run with caches. `used`: by arm, then backend."""
    if caches:
        missing = "" if any(used.values()) else "; no backend has one (DENSE_QUERY_CACHE_MB, RERANKER_SCORE_CACHE_MB)"
        yield f"caches were on{missing}: compare latency only with runs that had them on"


def cache_faults(caches: bool, used: Mapping[str, Mapping[str, CacheUse]]) -> Iterator[str]:
    """Yields why times do not hold: a backend looked results up although no-store was sent (a proxy may drop it)."""
    for arm, backends in used.items():
        if backends and not caches:
            yield f"{arm}: {', '.join(backends)} used a cache, although every request said `Cache-Control: no-store`"
