"""Builds the stamp of a lexical generation: all that determines its answers, as text to compare. Pure."""

from collections.abc import Callable

from services.contracts.base import Language
from services.contracts.collections import CollectionDeclaration, LexicalPreset
from services.lexical.presets import declared_presets


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
