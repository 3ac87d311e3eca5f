"""Builds the stamp of a lexical generation: all that determines its answers, as text to compare. Pure."""

from services.contracts.collections import CollectionDeclaration
from services.lexical.presets import declared_presets


def stamp_of(declaration: CollectionDeclaration, analysis: str) -> dict[str, str]:
    """Returns analysis, presets (in order: the first is the default) with their parameters, metadata, and models."""
    presets = declared_presets(declaration)
    return {
        "analysis": analysis,
        "presets": ",".join(preset.name for preset in presets),
        **{
            f"preset.{preset.name}": f"{preset.match} k1={preset.k1} b={preset.b} tie_breaker={preset.tie_breaker}"
            + "".join(f" {field}^{factor}" for field, factor in sorted(preset.boosts) if factor != 1.0)
            for preset in presets
        },
        **{f"metadata.{field}": kind for field, kind in sorted(declaration.metadata.items())},
        **{f"expansions.{method}": model for method, model in sorted(declaration.expansions.items())},
    }
