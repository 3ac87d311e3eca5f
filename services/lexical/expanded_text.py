"""Builds what presets over expansions score, and refuses expansions of another model than the declared. Pure."""

from collections.abc import Mapping

from services.chassis.errors import BadInput
from services.contracts.documents import Document
from services.contracts.expansions import ExpansionMethod


def expect_declared(document: Document, declared: Mapping[ExpansionMethod, str]) -> None:
    """Raises BadInput if the document's expansions are not those of the declared models, each of them."""
    held = {} if document.expansions is None else document.expansions.models
    for method in sorted({*declared, *held}):
        there, wanted = held.get(method), declared.get(method)
        if wanted is None:
            raise BadInput(
                f"expansions.{method}: the collection declares none. Begin a new generation that declares {there} "
                "under `expansions`, or leave it out."
            )
        if there is None:
            raise BadInput(
                f"expansions.{method}: missing. Every document of this collection has it, by {wanted}: send it along."
            )
        if there != wanted:
            raise BadInput(
                f"expansions.{method}: made by {there}, and the collection declares {wanted}. Expand the document by "
                f"the declared model, or begin a new generation that declares {there}."
            )


def generated_queries(document: Document) -> str:
    """Returns the generated queries, a line each; empty without any."""
    held = document.expansions
    return "" if held is None or held.doc2query is None else "\n".join(held.doc2query.queries)


def word_frequencies(document: Document) -> list[tuple[str, int]]:
    """Returns the words before analysis with their frequencies; empty without any."""
    held = document.expansions
    return [] if held is None or held.deepct is None else list(held.deepct.frequencies())
