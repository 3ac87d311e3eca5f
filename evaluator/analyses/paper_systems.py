"""Reads the systems of the BEIR paper and what stands in for each here (systems.yaml). Measures nothing."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from services.chassis.settings.strict_yaml import parse_yaml
from services.contracts.base import Name, Wire


class PaperSystem(Wire):
    """A system of the paper, and the pipelines that may stand in for it, the nearest first."""

    system: str
    original: Annotated[str, Field(description="the paper's checkpoint, or what it trained")]
    published: Annotated[str, Field(description="the original's figures in published.yaml")]
    pipelines: Annotated[tuple[Name, ...], Field(min_length=1)]
    differs: Annotated[str, Field(description="what is unlike the original, beside its weights")]
    needs: Annotated[str, Field(description="what is missing where no pipeline was measured")]


class _Systems(Wire):
    systems: tuple[PaperSystem, ...]


@cache
def paper_systems() -> tuple[PaperSystem, ...]:
    """Returns the ten systems in the order of the paper."""
    text = Path(__file__).with_name("systems.yaml").read_text("utf-8")
    return _Systems.model_validate(parse_yaml(text)).systems


def in_paper_order(pipelines: Iterable[str]) -> tuple[str, ...]:
    """Returns pipelines in the order of the paper's systems; others follow in their own order."""
    place = {name: at for at, name in enumerate(paper_pipelines())}
    return tuple(sorted(pipelines, key=lambda name: place.get(name, len(place))))


def paper_pipelines() -> tuple[str, ...]:
    """Returns the pipelines that stand in for the systems, in the order of the paper."""
    return tuple(name for system in paper_systems() for name in system.pipelines)
