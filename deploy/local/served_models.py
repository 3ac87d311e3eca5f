"""Chooses the models of the encoder and the re-ranker: in the precision of the vectors that are there, else by the CPU.

A service refuses vectors of another model, so the stamps of a directory are read before anything starts. Those of a
server are left to the service.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

from deploy.local.choices import ROOT, Choices
from deploy.local.problem import StackProblem
from deploy.models.precision import LACKING, MODELS, Precision, PrecisionChoice, asked_precision, choose_precision
from services.files.regular_file import read_regular
from services.inference.profiles import ModelError
from services.storage.edge_files import RECORD, GenerationRecord

# Settings of a service with which its model is not ours to choose, and the values that leave it to us.
_DECIDED = {"MODEL": "", "ENCODER": "onnx", "SCORER": "onnx", "DEVICE": "cpu"}


def with_models(choices: Choices, environment: Mapping[str, str], cpuinfo: str) -> Choices:
    """Returns the choices with the models that the environment leaves open, and the sentence about them.

    Raises StackProblem where the vectors that are there were made in another precision than PRECISION asks for, or in
    int8 on a machine whose CPU has no instructions for it.
    """
    services = [name for name in MODELS if name in choices.ports and _is_open(environment, name)]
    if not services:
        return choices
    try:
        choice = choose_precision(environment, cpuinfo)
        if "dense" in services and choices.stores["dense"] == "edge":
            choice = _kept(choices, environment, choice)
    except ModelError as error:
        raise StackProblem(str(error)) from error
    models = {name: MODELS[name][choice.precision] for name in services}
    return replace(choices, models=models, precision=choice.sentence)


def _is_open(environment: Mapping[str, str], service: str) -> bool:
    given = ((environment.get(f"{service.upper()}_{name}"), usual) for name, usual in _DECIDED.items())
    return all(not value or value == usual for value, usual in given)


def _kept(choices: Choices, environment: Mapping[str, str], choice: PrecisionChoice) -> PrecisionChoice:
    """Returns the precision of the vectors that are there; the choice where there are none, or some of each."""
    made, models = _stored_models(choices.directory), MODELS["dense"]
    kept = [precision for precision in get_args(Precision) if models[precision] in made]
    if len(kept) != 1 or kept[0] == choice.precision:
        return choice
    precision: Precision = kept[0]
    directory = choices.directory / "dense"
    where = str(directory.relative_to(ROOT) if directory.is_relative_to(ROOT) else directory)
    anew = "remove that directory and load again"
    origin = f"{models[precision]} made the vectors in {where}"
    if asked_precision(environment) is not None:
        raise StackProblem(f"PRECISION={choice.precision}, but {origin}: leave PRECISION out, or {anew}.")
    if precision == "int8":
        raise StackProblem(
            f"{origin}, and {LACKING}. Either {anew}, in fp32; or PRECISION=int8 searches them, with sums that may "
            "overflow."
        )
    return PrecisionChoice(precision, f"{origin}. For int8, {anew}")


def _stored_models(directory: Path) -> set[str]:
    """Returns the models in the stamps of the embedded dense store."""
    models = set()
    for file in (directory / "dense").glob(f"*/{RECORD}"):
        try:
            models.add(GenerationRecord.from_disk(read_regular(file)).stamp.get("model", ""))
        except (OSError, ValueError):
            continue  # the service lists it as unusable
    return models
