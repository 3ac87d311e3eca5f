"""Makes options of `load` of the fields of its plan, and a plan of them over the experiment's. Sends nothing."""

import inspect
import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from evaluator.commands.options import Command, option_message, overridden_experiment
from evaluator.errors import WrongOption
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.load_plan import CapacityPlan, LoadPlan

# What traffic is: one of them on the command line replaces those of the experiment's file.
TRAFFIC = ("rates", "in_flight", "capacity")
# Fields that only rates can have.
OF_RATES = ("best_under_ms",)
# Fields that only some traffic heeds. A closed loop has no planned arrivals; the points around a capacity are not cut.
HEEDED_BY = {"slice_seconds": ("rates", "in_flight"), "arrivals": ("rates", "capacity")}
# Fields whose options are not the field's name.
OPTIONS = {"rates": "--rate", "best_under_ms": "--best-under", "p99_ms": "--p99", "capacity": "--find-capacity"}


def _described(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {name: field for name, field in model.model_fields.items() if field.description}


# The fields that have an option, by name. Those of a capacity have options too, behind the one that asks for it.
OF_CAPACITY = _described(CapacityPlan)
FIELDS = {
    option: field
    for name, described in _described(LoadPlan).items()
    for option, field in {name: described, **(OF_CAPACITY if name == "capacity" else {})}.items()
}


def with_plan_options(command: Command) -> Command:
    """Adds the options behind a command's argument; it takes them as keywords. typer reads the signature."""
    signature = inspect.signature(command)
    context, argument, *others = (each for name, each in signature.parameters.items() if name not in FIELDS)
    plan = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=typer.Option(None, _option(name), help=field.description),
            annotation=_typed(field.annotation),
        )
        for name, field in FIELDS.items()
    ]
    command.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect heeds it
        parameters=[context, argument, *plan, *others]
    )
    return command


def _typed(annotation: object) -> object:
    """Returns the type of an option: a text for a choice or a list, a switch for a plan of its own."""
    if get_origin(annotation) in (tuple, Literal):
        return str
    named = next((kind for kind in get_args(annotation) if kind is not NoneType), annotation)
    plain = getattr(named, "__origin__", named)  # without limits
    return bool if plain is CapacityPlan else plain


def planned_experiment(name: str, options: Mapping[str, object], defaults: Mapping[str, object]) -> Experiment:
    """Returns an experiment whose plan has the given options. `options`: of the plan and of the experiment, by name.

    `defaults`: as of `overridden_load`, which raises WrongOption as this does.
    """
    given = _given_fields(options)
    chosen = overridden_experiment(name, **{key: value for key, value in options.items() if key not in FIELDS})
    return chosen.model_copy(update={"load": overridden_load(chosen.load, given, defaults)})


def _given_fields(options: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields of a plan that have been given as options. Raises WrongOption for one that cannot be read."""
    given = {name: options[name] for name in FIELDS if options[name] is not None}
    for name, value in given.items():
        match name, value:
            case "rates" | "in_flight", str() if value:
                given[name] = parse_numbers(_option(name), value)
    bounds = {name: given.pop(name) for name in OF_CAPACITY if name in given}
    if "capacity" in given:
        if "p99_ms" not in bounds:
            raise WrongOption("--find-capacity needs --p99, the bound in milliseconds")
        given["capacity"] = bounds
    elif bounds:
        raise WrongOption("--p99 and --point-seconds are options of --find-capacity")
    return given


def overridden_load(plan: LoadPlan | None, given: Mapping[str, object], defaults: Mapping[str, object]) -> LoadPlan:
    """Returns the plan with the given fields. Raises WrongOption that names the option at fault.

    `defaults` count where neither the plan's file nor `given` has the field. Other traffic leaves out what the file
    sets for its own traffic alone.
    """
    content = {} if plan is None else plan.model_dump(exclude_unset=True)
    if any(name in given for name in TRAFFIC):
        replaced = TRAFFIC if "rates" in given else (*TRAFFIC, *OF_RATES)
        content = {key: value for key, value in content.items() if key not in replaced}
    settings = {**defaults, **content, **given}
    if not any(settings.get(name) for name in TRAFFIC):
        raise WrongOption("say what to send: --rate, --in-flight or --find-capacity")
    _expect_heeded(given, [name for name in TRAFFIC if settings.get(name)])
    try:
        return LoadPlan.model_validate(settings)
    except ValidationError as error:
        raise WrongOption(_in_options(error.errors()[0])) from error


def _expect_heeded(given: Mapping[str, object], sent: Sequence[str]) -> None:
    """Raises WrongOption for options of the command line that none of the traffic heeds."""
    idle = [_option(field) for field, kinds in HEEDED_BY.items() if field in given and not set(kinds) & set(sent)]
    if idle:
        raise WrongOption(f"{', '.join(map(_option, sent))} would not heed these options: leave out {', '.join(idle)}")


def _in_options(fault: Mapping[str, Any]) -> str:
    """Returns the sentence of a fault with options in place of fields."""
    names = [part for part in fault["loc"] if isinstance(part, str)]
    message = option_message(fault)
    if fault["type"] == "value_error":  # a sentence of LoadPlan, which names fields
        fields = "|".join((*LoadPlan.model_fields, "point_seconds"))
        return re.sub(rf"`({fields})`", lambda match: _option(match[1]), message)
    value = f"{fault['input']:g}" if isinstance(fault["input"], float) else fault["input"]
    return f"{_option(names[-1])} {value}: {message}"


def _option(field: str) -> str:
    return OPTIONS.get(field, f"--{field.replace('_', '-')}")


def parse_numbers(option: str, text: str) -> list[float]:
    """Reads `10,20,40`."""
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise WrongOption(f"{option} {text}: give numbers, for example 10,20,40") from error
    return [int(number) if number.is_integer() else number for number in numbers]
