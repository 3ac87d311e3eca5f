"""Reads the fields of the forms of judging: what to pool for a new session, and what a judge does with a pair."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError

from evaluator.errors import WrongOption
from evaluator.judging.judgment_log import JUDGE_RULE, MOST_GRADE, is_judge_name
from evaluator.judging.session import Order
from services.contracts.base import Depth

MOST_SEED = 10**12
Deed = Literal["grade", "skip", "undo"]


@dataclass(frozen=True, slots=True)
class AskedSession:
    """A session to be made, and who begins to judge in which order."""

    pipelines: tuple[str, ...]  # RUN:PIPELINE
    top: int
    seed: int
    judge: str
    order: Order


def asked_session(pipelines: Sequence[str], fields: Mapping[str, str]) -> AskedSession:
    """Reads the fields `top`, `seed`, `judge` and `order`. Raises WrongOption, which names the field."""
    if not pipelines:
        raise WrongOption("pipelines: tick at least one; two or more, and judging can follow their comparison")
    try:
        top = TypeAdapter(Depth).validate_python(_number("top", fields.get("top", "")))
    except ValidationError as error:
        raise WrongOption("top: pool 1 to 1000 documents of each ranking") from error
    seed = _number("seed", fields.get("seed", ""))
    if seed > MOST_SEED:
        raise WrongOption(f"seed: a number up to {MOST_SEED}")
    judge, order = judge_name(fields.get("judge", "")), asked_order(fields.get("order", "pool"))
    return AskedSession(tuple(dict.fromkeys(pipelines)), top, seed, judge, order)


def judge_name(text: str) -> str:
    """Returns the name of a judge, which is that of a file. Raises WrongOption."""
    name = " ".join(text.split())
    if not is_judge_name(name):
        raise WrongOption(f"judge: {name[:80]!r} is no name of a judge; take {JUDGE_RULE}")
    return name


def asked_order(text: str) -> Order:
    """Reads the name of an order of judging. Raises WrongOption."""
    for order in get_args(Order):
        if text == order:
            found: Order = order
            return found
    raise WrongOption(f"order: {text[:40]!r} is none; there are {', '.join(get_args(Order))}")


def asked_deed(text: str) -> tuple[Deed, int | None]:
    """Reads what a judge does: `skip`, `undo` or a grade. Raises WrongOption."""
    if text == "skip":
        return "skip", None
    if text == "undo":
        return "undo", None
    if text not in map(str, range(MOST_GRADE + 1)):
        raise WrongOption(f"grade: {text[:40]!r} is none; a grade is 0 to {MOST_GRADE}, and there are skip and undo")
    return "grade", int(text)


def _number(name: str, text: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,15}\s*", text):
        raise WrongOption(f"{name}: {text[:40]!r} is no whole number from 0 on")
    return int(text)
