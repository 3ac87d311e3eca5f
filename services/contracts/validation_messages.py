"""Turns pydantic's errors into messages for callers who do not know our models."""

import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

Place = Sequence[str | int]


def validation_message(fault: Mapping[str, Any], model: object = None) -> str:
    """Returns the message for one of pydantic's errors. Names the fields that `model` has at that place."""
    match fault["type"]:
        case "extra_forbidden" if known := known_fields(model, fault["loc"][:-1]):
            return f"there is no such field; there are: {', '.join(known)}"
        case "model_type" | "model_attributes_type":
            known = known_fields(model, fault["loc"])
            return f"must be an object with: {', '.join(known)}" if known else "must be an object"
        case "tuple_type" | "list_type":  # Python's names for what JSON and YAML call a list
            return "must be a list"
        case "dict_type":
            return "must be an object"
    return str(fault["msg"]).removeprefix("Value error, ")


def known_fields(model: object, place: Place) -> list[str]:
    """Returns the fields of every model that is allowed at a place."""
    models = list(_models(model))
    for part in place:
        named = [(model, model.model_fields[part]) for model in models if part in model.model_fields]
        if named:
            models = [below for model, field in named for below in _models(field.annotation, model.__module__)]
        elif isinstance(part, str):  # the tag of a union's member; the index of an item narrows nothing down
            models = [model for model in models if part in _kinds(model)] or models
    fields = ((name, field.validation_alias) for model in models for name, field in model.model_fields.items())
    return list(dict.fromkeys(alias if isinstance(alias, str) else name for name, alias in fields))


def _models(annotation: object, module: str = "") -> Iterator[type[BaseModel]]:
    """Yields every model that an annotation allows, also inside unions, containers and Annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif isinstance(annotation, str):  # pydantic resolves a forward reference internally but leaves its name here
        yield from _models(getattr(sys.modules[module], annotation), module)
    elif get_origin(annotation) in (Annotated, Union, types.UnionType, tuple, list, dict):
        for inner in get_args(annotation):
            yield from _models(inner, module)


def _kinds(model: type[BaseModel]) -> tuple[object, ...]:
    field = model.model_fields.get("kind")
    return get_args(field.annotation) if field is not None and get_origin(field.annotation) is Literal else ()
