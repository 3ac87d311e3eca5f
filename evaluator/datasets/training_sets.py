"""Reads which sets a model saw in training: `trained_on` of deploy/models/models.yaml. Knows no other fact of it."""

from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from services.chassis.settings.strict_yaml import parse_yaml

MODELS_FILE = Path(__file__).parents[2] / "deploy" / "models" / "models.yaml"
UNLISTED = "unknown: it is no model of deploy/models/models.yaml"


class _Trained(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    trained_on: tuple[str, ...] | str  # names of sets, or the sentence that its card does not say


class _Listed(BaseModel):
    models: tuple[_Trained, ...]


def trained_on(model: str) -> str:
    """Returns the sets that a model saw in training, or that they are not known.

    `model`: `name`, `name@weights` or `name+settings@weights`.
    """
    known = _known().get(_name(model), UNLISTED)
    return known if isinstance(known, str) else ", ".join(known)


def saw_in_training(model: str, dataset: str) -> bool:
    """Returns whether a dataset, by the name of its directory, is listed among the training sets of a model.

    Capitals, spaces and hyphens do not count: `msmarco` is MS MARCO. A split is not looked at.
    """
    known = _known().get(_name(model), UNLISTED)
    return not isinstance(known, str) and _letters(dataset) in map(_letters, known)


def _name(model: str) -> str:
    return model.partition("@")[0].partition("+")[0]


def _letters(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


@cache
def _known() -> dict[str, tuple[str, ...] | str]:
    parsed = _Listed.model_validate(parse_yaml(MODELS_FILE.read_text("utf-8")))
    return {model.name: model.trained_on for model in parsed.models}
