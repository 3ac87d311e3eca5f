"""Reads the published figures and the settings behind those of BM25 (published.yaml). Runs and compares nothing."""

import re
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from evaluator.errors import EvaluationError
from evaluator.parity.figure_settings import FigureSettings, changed
from services.chassis.settings.strict_yaml import parse_yaml
from services.contracts.base import Number, Wire

# Two decimals or fewer are met by chance.
_FIGURE = re.compile(r"[01]\.\d{3,6}")
Figure = Annotated[str, Field(pattern=rf"^{_FIGURE.pattern}$")]


METRICS = ("nDCG@10", "Recall@100")
_GIVEN_BY = "given on the command line"


class PublishedFigures(Wire):
    """The figures of one preset on one dataset, as printed, by metric."""

    figures: dict[str, Figure]
    documented: FigureSettings
    source: str


class PublishedEncoder(Wire):
    """The figures of an encoder on one dataset, and the settings that its source documents, as stamps name them."""

    figures: dict[str, Figure]
    documented: dict[str, str]
    source: str


class _Row(Wire):
    ndcg_at_10: Annotated[Figure, Field(alias="nDCG@10")]
    recall_at_100: Annotated[Figure | None, Field(alias="Recall@100")] = None
    k1: Number | None = None
    source: str


class PublishedSystem(Wire):
    """A system that has published figures: a name for tables, and whose figures they are."""

    title: str
    of: str
    encoder: Annotated[dict[str, str], Field(description="settings of the encoder, as a stamp names them")] = {}


class _Preset(Wire):
    settings: FigureSettings


class _Table(Wire):
    presets: dict[str, _Preset]
    systems: dict[str, PublishedSystem]
    published: dict[str, dict[str, _Row]]


def presets() -> tuple[str, ...]:
    """Returns the presets that have published figures."""
    return tuple(_table().presets)


def published_figures(preset: str, dataset: str) -> PublishedFigures:
    """Returns the published figures of a preset on a dataset. Raises EvaluationError if there are none."""
    table = _table()
    _expect_preset(table, preset)
    row = table.published[preset].get(dataset)
    if row is None:
        known = ", ".join(sorted(table.published[preset]))
        raise EvaluationError(
            f"there is no published figure of {preset} on {dataset}; give one with --published 0.1234 "
            f"(there are figures for: {known})"
        )
    figures = {"nDCG@10": row.ndcg_at_10} | ({"Recall@100": row.recall_at_100} if row.recall_at_100 else {})
    documented = table.presets[preset].settings
    return PublishedFigures(
        figures=figures,
        documented=documented if row.k1 is None else changed(documented, {"k1": row.k1}),
        source=row.source,
    )


def encoders() -> tuple[str, ...]:
    """Returns the encoders that have published figures with documented settings."""
    return tuple(name for name, system in _table().systems.items() if system.encoder)


def published_encoder(system: str, dataset: str) -> PublishedEncoder:
    """Returns the published figures of an encoder on a dataset. Raises EvaluationError if there are none."""
    table = _table()
    row = table.published[system].get(dataset)
    if row is None:
        known = ", ".join(sorted(table.published[system]))
        raise EvaluationError(f"there is no published figure of {system} on {dataset} (there are figures for: {known})")
    return PublishedEncoder(
        figures={"nDCG@10": row.ndcg_at_10}, documented=table.systems[system].encoder, source=row.source
    )


def published_systems() -> dict[str, PublishedSystem]:
    """Returns the systems that have published figures, by name."""
    return _table().systems


def figures_on(dataset: str) -> dict[str, dict[str, str]]:
    """Returns all published figures on a dataset, as printed, by system and metric; systems without one are absent."""
    return {
        system: {"nDCG@10": row.ndcg_at_10} | ({"Recall@100": row.recall_at_100} if row.recall_at_100 else {})
        for system, rows in _table().published.items()
        if (row := rows.get(dataset)) is not None
    }


def given_figure(preset: str, metric: str, figure: str) -> PublishedFigures:
    """Returns a figure of the caller's, with the settings that the preset's source documents."""
    table = _table()
    _expect_preset(table, preset)
    return PublishedFigures(figures=_given(metric, figure), documented=table.presets[preset].settings, source=_GIVEN_BY)


def given_encoder_figure(system: str, metric: str, figure: str) -> PublishedEncoder:
    """Returns a figure of the caller's, with the settings that the encoder's source documents."""
    documented = _table().systems[system].encoder
    return PublishedEncoder(figures=_given(metric, figure), documented=documented, source=_GIVEN_BY)


def _given(metric: str, figure: str) -> dict[str, str]:
    if metric not in METRICS:
        raise EvaluationError(f"--metric {metric}: parity computes {' and '.join(METRICS)}")
    if not _FIGURE.fullmatch(figure):
        raise EvaluationError(f"--published {figure}: give the figure with three to six decimals, for example 0.6906")
    return {metric: figure}


def equals_published(figure: float, printed: str) -> bool:
    """Returns whether a figure, rounded to as many decimals, is the printed one."""
    return f"{figure:.{decimals(printed)}f}" == printed


def decimals(printed: str) -> int:
    """Returns the number of decimals of a printed figure."""
    return len(printed.partition(".")[2])


def _expect_preset(table: _Table, preset: str) -> None:
    if preset not in table.presets:
        listed = ", ".join((*table.presets, *encoders()))
        raise EvaluationError(f"there is no preset {preset}; there are: {listed}")


@cache
def _table() -> _Table:
    return _Table.model_validate(parse_yaml(Path(__file__).with_name("published.yaml").read_text("utf-8")))
