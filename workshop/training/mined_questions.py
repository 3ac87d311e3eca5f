"""Reads groups.jsonl as mine.py writes it: one question a line, with its candidates and their scores."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict


class MinedQuestion(TypedDict):
    """One line of groups.jsonl: a question with its candidates (places of passages), best known first.

    `bm25` has a score or None for each candidate, `teachers` one list of cosines a teacher.
    """

    query: str
    file: str
    held_out: bool
    short: bool
    relevant: list[int]
    candidates: list[int]
    bm25: list[float | None]
    teachers: list[list[float]]


def read_questions(file: Path, *, held_out: bool, short: bool) -> list[MinedQuestion]:
    """Reads the questions that are (or are not) held out, and are (or are not) short queries."""
    with file.open() as lines:
        parsed: Iterator[MinedQuestion] = map(json.loads, lines)
        return [line for line in parsed if line["held_out"] == held_out and line["short"] == short]
