"""Reads the published figures and the settings behind those of BM25 (published.yaml). Runs and compares nothing."""

import re
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from evaluator.errors import EvaluationError
from services.chassis.settings.strict_yaml import parse_yaml
from services.contracts.base import Depth, Number, Weight, Wire

# Two decimals or fewer are met by chance.
_FIGURE = re.compile(r"[01]\.\d{3,6}")
Figure = Annotated[str, Field(pattern=rf"^{_FIGURE.pattern}$")]

METRICS = ("nDCG@10", "Recall@100")
_GIVEN_BY = "given on the command line"
# Names of settings in reports, where they differ from those of the fields.
_LABELS = {
    "self_retrieved": "self-retrieved documents",
    "missing": "queries without hits",
    "ties": "order of equal scores by id",
}


class Bm25Settings(Wire):
    """All settings of one figure of BM25: four of the index, four of the evaluation, whose defaults are ours."""

    fields: Literal["flat", "best_fields", "most_fields"]
    k1: Annotated[Number, Field(ge=0.0, le=10.0)]
    b: Weight
    tie_breaker: Weight
    # Which retrieved documents are dropped as the query itself: by id and text, by id alone, none.
    self_retrieved: Literal["same id and text", "same id", "kept"] = "same id and text"
    missing: Literal["counted as 0", "dropped"] = "counted as 0"  # queries without hits
    ties: Literal["ascending", "descending"] = "ascending"  # equal scores, by document id
    depth: Depth = 1_000  # of the ranking; documents that are the query itself are dropped afterwards

    @property
    def named(self) -> dict[str, str]:
        """The settings as a report names them."""
        return {_LABELS.get(name, name): str(value) for name, value in self}


class PublishedFigures(Wire):
    """The figures of a preset or an encoder on one dataset, as printed, by metric, and the settings of their source.

    Those of an encoder are named as its stamp names them.
    """

    figures: dict[str, Figure]
    documented: dict[str, str]
    source: str


class _Row(Wire):
    ndcg_at_10: Annotated[Figure, Field(alias="nDCG@10")]
    recall_at_100: Annotated[Figure | None, Field(alias="Recall@100")] = None
    k1: Number | None = None
    source: str

    @property
    def figures(self) -> dict[str, str]:
        """The figures by metric."""
        return {"nDCG@10": self.ndcg_at_10} | ({"Recall@100": self.recall_at_100} if self.recall_at_100 else {})


class PublishedSystem(Wire):
    """A system that has published figures: a name for tables, and whose figures they are."""

    title: str
    of: str
    encoder: Annotated[dict[str, str], Field(description="settings of the encoder, as a stamp names them")] = {}


class _Table(Wire):
    presets: dict[str, Bm25Settings]
    systems: dict[str, PublishedSystem]
    published: dict[str, dict[str, _Row]]


def presets() -> tuple[str, ...]:
    """Returns the presets that have published figures."""
    return tuple(_table().presets)


def encoders() -> tuple[str, ...]:
    """Returns the encoders that have published figures with documented settings."""
    return tuple(name for name, system in _table().systems.items() if system.encoder)


def published_figures(system: str, dataset: str) -> PublishedFigures:
    """Returns the published figures of a preset or an encoder on a dataset. Raises EvaluationError without any."""
    documented = _documented(system)
    rows = _table().published[system]
    row = rows.get(dataset)
    if row is None:
        raise EvaluationError(
            f"there is no published figure of {system} on {dataset}; give one with --published 0.1234 "
            f"(there are figures for: {', '.join(sorted(rows))})"
        )
    if row.k1 is not None:
        documented["k1"] = str(row.k1)
    return PublishedFigures(figures=row.figures, documented=documented, source=row.source)


def given_figure(system: str, metric: str, figure: str) -> PublishedFigures:
    """Returns a figure of the caller's, with the settings that the source of the preset or encoder documents."""
    documented = _documented(system)
    if metric not in METRICS:
        raise EvaluationError(f"--metric {metric}: parity computes {' and '.join(METRICS)}")
    if not _FIGURE.fullmatch(figure):
        raise EvaluationError(f"--published {figure}: give the figure with three to six decimals, for example 0.6906")
    return PublishedFigures(figures={metric: figure}, documented=documented, source=_GIVEN_BY)


def published_systems() -> dict[str, PublishedSystem]:
    """Returns the systems that have published figures, by name."""
    return _table().systems


def figures_on(dataset: str) -> dict[str, dict[str, str]]:
    """Returns all published figures on a dataset, as printed, by system and metric; systems without one are absent."""
    return {
        system: row.figures for system, rows in _table().published.items() if (row := rows.get(dataset)) is not None
    }


def equals_published(figure: float, printed: str) -> bool:
    """Returns whether a figure, rounded to as many decimals, is the printed one."""
    return f"{figure:.{decimals(printed)}f}" == printed


def decimals(printed: str) -> int:
    """Returns the number of decimals of a printed figure."""
    return len(printed.partition(".")[2])


def _documented(system: str) -> dict[str, str]:
    """Returns the settings that the source of a preset or an encoder documents. Raises EvaluationError for others."""
    if system in presets():
        return _table().presets[system].named
    if system in encoders():
        return {"model": system, **_table().systems[system].encoder}
    raise EvaluationError(f"there is no preset {system}; there are: {', '.join((*presets(), *encoders()))}")


@cache
def _table() -> _Table:
    return _Table.model_validate(parse_yaml(Path(__file__).with_name("published.yaml").read_text("utf-8")))
