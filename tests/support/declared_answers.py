"""Holds an answer against the OpenAPI document of its service."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
from jsonschema import Draft202012Validator

Part = dict[str, Any]


def resolved(document: Part, part: Part) -> Part:
    """Returns what a part refers to, or the part itself."""
    found: Any = part
    while "$ref" in found:
        reference, found = found["$ref"], document
        assert reference.startswith("#/")
        for name in reference[2:].split("/"):
            found = found[name]
    return dict(found)


def undeclared(document: Part, operation: Part, answer: httpx.Response) -> str | None:
    """Returns what the document does not say of an answer: its status, its type, or a fault of its body."""
    code = str(answer.status_code)
    declared = operation["responses"].get(code) or operation["responses"].get(f"{code[0]}XX")
    if declared is None:
        return f"{code}: {answer.text}"
    content = resolved(document, declared).get("content", {})
    media = answer.headers.get("content-type", "").partition(";")[0]
    if not content or media not in content:
        return f"{code} of {media!r}" if content or answer.content else None
    if not media.endswith("json"):
        return None
    validator = Draft202012Validator({**content[media].get("schema", {}), "components": document["components"]})
    return next((str(fault) for fault in validator.iter_errors(answer.json())), None)


def references(document: Part) -> Iterator[str]:
    """Yields every reference in a document."""
    return iter(re.findall(r'"\$ref": "([^"]+)"', json.dumps(document)))
