"""Owns the wire of highlights: the fragments of a document's fields in which words of a query stand."""

from typing import Annotated

from pydantic import Field

from services.contracts.base import Count, Language, OptionalQuery, Wire

MOST_FRAGMENTS = 10
Fragments = Annotated[int, Field(strict=True, ge=1, le=MOST_FRAGMENTS)]


class HighlightRequest(Wire):
    """Asks for at most so many `fragments` of each field that hold words of a query, as the analysis compares them."""

    query: OptionalQuery
    fragments: Fragments
    # Left out where it is english, so that an earlier release reads the request.
    language: Annotated[Language, Field(exclude_if=lambda language: language == "english")] = "english"


class Fragment(Wire):
    """A part of a field, `start` characters behind its beginning, in Unicode's NFC.

    `matches`: first character and end of every word of the query, within `text`.
    """

    start: Count
    text: str
    matches: tuple[tuple[Count, Count], ...]


class Highlights(Wire):
    """The fragments of a document, those with most of the query's words first. A title is one fragment, and whole."""

    title: tuple[Fragment, ...] = ()
    text: tuple[Fragment, ...] = ()
