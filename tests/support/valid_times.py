"""Gives what a run has measured times that hold, or do not, whatever else the machine did meanwhile."""

from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)


def with_timing_valid(found: Model, *reasons: str) -> Model:
    """Returns a report whose times hold; with reasons, do not. Every time in it carries that (`carry_validity`)."""
    data: dict[str, Any] = found.model_dump()
    for outcome in data.get("pipelines", {}).values():
        outcome["latency_ms"]["valid"] = not reasons
    return type(found).model_validate({**data, "timing_valid": not reasons, "timing_reasons": reasons})
