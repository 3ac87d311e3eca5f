"""Counts the documents that were loaded while searches were timed, and reports where none were. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import FiniteFloat

from services.contracts.base import Count, Wire


@dataclass(frozen=True, slots=True)
class SliceLoading:
    """What was loaded within a slice."""

    documents: int
    seconds: float  # on the clock, the warm-up and the start of the generators among them
    stopped: str | None  # why loading ended before the slice


class LoadingFigures(Wire):
    """Documents loaded while a pipeline was searched, over all slices."""

    documents: Count
    seconds: FiniteFloat
    documents_a_second: FiniteFloat


def loading_figures(slices: Sequence[SliceLoading]) -> LoadingFigures | None:
    """Sums up the slices; None where nothing was to be loaded."""
    if not slices:
        return None
    documents, seconds = sum(one.documents for one in slices), sum(one.seconds for one in slices)
    return LoadingFigures(documents=documents, seconds=seconds, documents_a_second=documents / seconds)


def loading_faults(slices: Sequence[SliceLoading]) -> Iterator[str]:
    """Yields a sentence for each reason why requests were not timed while the corpus was loaded."""
    yield from dict.fromkeys(f"loading stopped: {one.stopped}" for one in slices if one.stopped is not None)
    empty = sum(one.documents == 0 for one in slices)
    if empty:
        yield f"no document was loaded in {empty} of {len(slices)} slices; longer ones hold more (--slice-seconds)"
