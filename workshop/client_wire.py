"""Generates the client package's models of the wire: `.venv/bin/python -m workshop.client_wire`."""

import json
from keyword import iskeyword
from pathlib import Path
from typing import Any, get_args

from pydantic.json_schema import models_json_schema

from services.contracts.base import Wire
from services.contracts.collections import (
    Boosts,
    CollectionBegun,
    CollectionList,
    FieldKind,
    LexicalPreset,
    Published,
    PublishJob,
)
from services.contracts.documents import DocumentsAnswer, DocumentsPage, FanOutReport
from services.contracts.expansions import ExpansionMethod
from services.contracts.filters import Condition, Filter
from services.contracts.matches import Facet, Range
from services.contracts.pipelines import PipelineList
from services.contracts.problem import Problem
from services.contracts.query import SearchAnswer
from services.contracts.retrieval import Sort

GENERATED = Path(__file__).parents[1] / "clients/python/retrieval_client/answers.py"
# What callers write as dictionaries, and the models of what they read or construct.
REQUESTS: tuple[type[Wire], ...] = (Condition, Filter, Range, Facet, Sort, Boosts, LexicalPreset)
ANSWERS: tuple[type[Wire], ...] = (
    *(Problem, SearchAnswer, DocumentsAnswer, DocumentsPage, FanOutReport),
    *(CollectionBegun, CollectionList, Published, PublishJob, PipelineList),
)
# Explaining a ranking is for the evaluator and for HTTP, orders are between services: an answer ignores these fields.
UNREAD = {"SearchHit": {"stages"}, "SearchAnswer": {"candidates"}, "CollectionState": {"publication"}}
UNREAD |= {report: {"latest_version"} for report in ("IndexReport", "DeleteReport")}
NAMES = {"DocumentWithVectors": "Document"}
# Answers have these as dictionaries, which can be sent again.
DICTIONARIES = ("Pipeline", "Expansions", "LexicalPreset", "ExperimentPipeline")
METADATA_VALUE = "bool | int | float | str | tuple[str, ...]"
HEADER = (
    '''\
"""Models of the wire. `.venv/bin/python -m workshop.client_wire` generates them from the contracts: do not edit.

Where the wire has a choice of words, an answer has any text: a later gateway may have more.
"""
# fmt: off
# ruff: noqa: E501, UP013

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, Field

'''
    + f"MetadataValue = {METADATA_VALUE}\n"
)
BASE = '''class Answer(BaseModel):
    """A frozen value that the gateway sent. Fields that a later gateway adds are ignored."""
    model_config = ConfigDict(frozen=True)
'''
Schema = dict[str, Any]
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def generated_models() -> str:
    """Returns the text of the generated module."""
    _, schema = models_json_schema([(model, "validation") for model in (*REQUESTS, *ANSWERS)])
    definitions: dict[str, Schema] = schema["$defs"]
    words = {"FieldKind": FieldKind, "ExpansionMethod": ExpansionMethod}
    choices = [f"{name} = Literal{json.dumps(get_args(choice))}\n" for name, choice in words.items()]
    requests = [_request(model.__name__, definitions[model.__name__]) for model in REQUESTS]
    written: dict[str, str] = {}
    for model in ANSWERS:
        _write(model.__name__, definitions, written)
    models = "".join(written.values()).replace(METADATA_VALUE, "MetadataValue")
    return "".join((HEADER, *choices, "\n", *requests, BASE, models, "Preset = str | LexicalPreset\n"))


def _write(name: str, definitions: dict[str, Schema], written: dict[str, str]) -> None:
    """Adds a model behind those that its fields refer to."""
    if name in written or name in DICTIONARIES:
        return
    schema = definitions[name]
    fields = {field: of for field, of in schema["properties"].items() if field not in UNREAD.get(name, ())}
    for reference in _references(fields):
        _write(NAMES.get(reference, reference), definitions, written)
    lines = [f"class {name}(Answer):"]
    if description := schema.get("description"):
        lines.append('    """' + " ".join(description.partition("\n\n")[0].split()) + '"""')
    lines += [_field(field, of, field in schema.get("required", ())) for field, of in fields.items()]
    written[name] = "\n".join(lines) + "\n"


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for part in schema for name in _references(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].rpartition("/")[2]] if isinstance(schema.get("$ref"), str) else []
    return own + [name for part in schema.values() for name in _references(part)]


def _field(name: str, schema: Schema, required: bool) -> str:
    annotation = _type(schema)
    default = "" if required else _default(schema)
    if iskeyword(name):
        return f'    {name}_: {annotation} = Field({default or "..."}, alias="{name}")'
    return f"    {name}: {annotation}" + (f" = {default}" if default else "")


def _default(schema: Schema) -> str:
    match schema.get("default"):
        case list(items):
            return repr(tuple(items))
        case value:
            return json.dumps(value) if isinstance(value, str) else repr(value)


def _request(name: str, schema: Schema) -> str:
    required = schema.get("required", ())
    kinds = {field: _type(part, sent=True) for field, part in schema["properties"].items()}
    for field, kind in kinds.items():
        if any(model.__name__ in kind for model in REQUESTS):  # it may be defined below
            kinds[field] = f'"{kind}"'
    fields = [f'"{field}": {kind if field in required else f"NotRequired[{kind}]"}' for field, kind in kinds.items()]
    return f'{name} = TypedDict("{name}", {{{", ".join(fields)}}})\n'


def _type(schema: Schema, *, sent: bool = False) -> str:
    """Returns the annotation of a value; `sent`: of a request, in which words are chosen and None is left out."""
    match schema:
        case {"$ref": str(reference)}:
            name = reference.rpartition("/")[2]
            if not sent and name in DICTIONARIES:
                return "dict[str, Any]"
            return NAMES.get(name, name)
        case {"anyOf": list(parts)} | {"oneOf": list(parts)}:
            kinds = dict.fromkeys(_type(part, sent=sent) for part in parts)
            return " | ".join(kind for kind in kinds if not (sent and kind == "None"))
        case {"enum": list(words)} if sent:
            return f"Literal[{', '.join(json.dumps(word) for word in words)}]"
        case {"type": "array", "prefixItems": list(parts)}:
            return f"tuple[{', '.join(map(_type, parts))}]"
        case {"type": "array", "items": dict(item)}:
            return f"Sequence[{_type(item, sent=True)}]" if sent else f"tuple[{_type(item)}, ...]"
        case {"type": "object"}:
            (values,) = (schema.get("additionalProperties") or None, *schema.get("patternProperties", {}).values())[-1:]
            return f"dict[str, {_type(values)}]" if isinstance(values, dict) else "dict[str, Any]"
        case {"type": str(kind)}:
            return _PLAIN[kind]
    raise ValueError(f"the client's models cannot hold {schema}")


if __name__ == "__main__":
    GENERATED.write_text(generated_models(), encoding="utf-8")
