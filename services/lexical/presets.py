"""Owns the built-in presets, the choice of a preset, the fields that presets score, and the stamp. Pure."""

from collections.abc import Callable, Mapping

from services.chassis.errors import BadInput
from services.contracts.base import Language
from services.contracts.collections import CollectionDeclaration, LexicalPreset
from services.contracts.documents import Document
from services.contracts.expansions import ExpansionMethod

BUILT_IN: Mapping[str, LexicalPreset] = {
    preset.name: preset
    for preset in (
        # As the beir package runs Elasticsearch (beir/retrieval/search/lexical/elastic_search.py).
        LexicalPreset(name="beir", match="best_fields", k1=1.2, b=0.75, tie_breaker=0.5),
        # As Anserini's BEIR regressions run Lucene, `flat` and `multifield`.
        LexicalPreset(name="anserini-flat", match="flat", k1=0.9, b=0.4),
        LexicalPreset(name="anserini-multifield", match="most_fields", k1=0.9, b=0.4),
        # As `anserini-flat`.
        LexicalPreset(name="doc2query", match="doc2query", k1=0.9, b=0.4),
        # As `beir`. Frequencies of words are ten times as high, and so is k1.
        LexicalPreset(name="deepct", match="deepct", k1=12.0, b=0.75),
    )
}


def declared_presets(declaration: CollectionDeclaration) -> tuple[LexicalPreset, ...]:
    """Returns the declared presets with their parameters. Raises BadInput if a name stands for two presets."""
    presets = tuple(BUILT_IN[preset] if isinstance(preset, str) else preset for preset in declaration.presets)
    names = [preset.name for preset in presets]
    for preset in presets:
        known = BUILT_IN.get(preset.name, preset)
        if names.count(preset.name) > 1 or (known is not preset and known != preset):
            raise BadInput(f"presets: {preset.name} stands for more than one preset; give yours another name.")
    return presets


def preset_fields(preset: LexicalPreset) -> tuple[str, ...]:
    """Returns the fields of a document that a preset scores."""
    match preset.match:
        case "flat":
            return ("contents",)
        case "doc2query" | "deepct":
            return (preset.match,)
        case "best_fields" | "most_fields":
            return ("title", "text")


def boost_of(preset: LexicalPreset, field: str) -> float:
    """Returns the factor of a field's scores."""
    factor: float = getattr(preset.boosts, field, 1.0)
    return factor


def chosen_preset(declaration: CollectionDeclaration, name: str | None) -> LexicalPreset:
    """Returns the preset of that name, or the first one. Raises BadInput naming the declared ones."""
    presets = declared_presets(declaration)
    if name is None:
        return presets[0]
    for preset in presets:
        if preset.name == name:
            return preset
    known = ", ".join(preset.name for preset in presets)
    raise BadInput(f"preset: {name} is not declared for this collection; declared are: {known}.")


def stamp_of(declaration: CollectionDeclaration, version: Callable[[Language], str]) -> dict[str, str]:
    """Returns analyses, presets (in order: the first is the default) with their parameters, metadata, and models.

    `version` returns that of a language's analysis.
    """
    presets = declared_presets(declaration)
    return {
        "analysis": ",".join(map(version, sorted({preset.language for preset in presets}))),
        "presets": ",".join(preset.name for preset in presets),
        **{f"preset.{preset.name}": _parameters(preset) for preset in presets},
        **{f"metadata.{field}": kind for field, kind in sorted(declaration.metadata.items())},
        **{f"expansions.{method}": model for method, model in sorted(declaration.expansions.items())},
    }


def _parameters(preset: LexicalPreset) -> str:
    """Returns all that a preset sets; but no language where that is `english`, nor boosts of 1."""
    return " ".join(
        (
            f"{preset.match} k1={preset.k1} b={preset.b} tie_breaker={preset.tie_breaker}",
            *(f"{field}^{factor}" for field, factor in sorted(preset.boosts) if factor != 1.0),
            *(() if preset.language == "english" else (f"language={preset.language}",)),
        )
    )


def expect_declared(document: Document, declared: Mapping[ExpansionMethod, str]) -> None:
    """Raises BadInput if the document's expansions are not those of the declared models, each of them."""
    held = {} if document.expansions is None else document.expansions.models
    for method in sorted({*declared, *held}):
        made_by, wanted = held.get(method), declared.get(method)
        if wanted is None:
            raise BadInput(
                f"expansions.{method}: the collection declares none. Begin a new generation that declares {made_by} "
                "under `expansions`, or leave it out."
            )
        if made_by is None:
            raise BadInput(
                f"expansions.{method}: missing. Every document of this collection has it, by {wanted}: send it along."
            )
        if made_by != wanted:
            raise BadInput(
                f"expansions.{method}: made by {made_by}, and the collection declares {wanted}. Expand the document by "
                f"the declared model, or begin a new generation that declares {made_by}."
            )


def generated_queries(document: Document) -> str:
    """Returns the generated queries, one per line; empty without any."""
    held = document.expansions
    return "" if held is None or held.doc2query is None else "\n".join(held.doc2query.queries)


def word_frequencies(document: Document) -> list[tuple[str, int]]:
    """Returns the words before analysis with their frequencies; empty without any."""
    held = document.expansions
    return [] if held is None or held.deepct is None else list(held.deepct.frequencies())
