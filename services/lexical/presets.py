"""Owns the built-in presets, and chooses the preset of a search. Pure."""

from collections.abc import Mapping

from services.chassis.errors import BadInput
from services.contracts.collections import CollectionDeclaration, LexicalPreset

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


def fields_of(preset: LexicalPreset) -> tuple[str, ...]:
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
