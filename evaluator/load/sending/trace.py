"""Reads a recorded trace (CSV, under a header): the time in seconds, the id of a query, the name of a pipeline."""

import csv
import math
from collections.abc import Collection, Iterator
from pathlib import Path

from evaluator.datasets.ids import plain_id
from evaluator.datasets.judgments import QUERY_COLUMN
from evaluator.datasets.text_files import HashedLines, known_columns, named_columns
from evaluator.errors import EvaluationError
from evaluator.load.sending.traffic import PlannedRequest
from evaluator.pages.csv_text import csv_rows

_COLUMNS = {"time": ("time",), "query": QUERY_COLUMN, "pipeline": ("pipeline",)}


def read_trace(path: Path, queries: Collection[str], pipelines: Collection[str]) -> list[PlannedRequest]:
    """Returns the requests in the order of time, the first at 0. Raises EvaluationError with the line at fault.

    The header decides which column is what; there may be others.
    """
    requests = []
    rows = _rows(path)
    _, header = next(rows, ("", []))
    if (columns := named_columns(header, _COLUMNS)) is None:
        raise EvaluationError(
            f"{path}: the first line of a trace names time, query and pipeline, separated by commas "
            f"(known are: {known_columns(_COLUMNS)})"
        )
    for where, row in rows:
        if len(row) != len(header):
            raise EvaluationError(f"{where}: columns: {len(row)}; the header has {len(header)}")
        time, query, pipeline = (row[columns[name]].strip() for name in _COLUMNS)
        requests.append(_request(where, time, plain_id(query), pipeline, queries=queries, pipelines=pipelines))
    if not requests:
        raise EvaluationError(f"{path}: the trace has no requests")
    requests.sort(key=lambda request: request.at_s)
    first_s = requests[0].at_s
    return [request._replace(at_s=request.at_s - first_s) for request in requests]


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yields place and cells of every row that is not empty."""
    number = 0
    try:
        for number, row in csv_rows(text for _, text in HashedLines(path).texts()):
            if any(row):
                yield f"{path}:{number}", row
    except csv.Error as error:
        raise EvaluationError(f"{path}:{number + 1}: not CSV: {error}") from error


def _request(
    where: str, time: str, query: str, pipeline: str, *, queries: Collection[str], pipelines: Collection[str]
) -> PlannedRequest:
    try:
        at_s = float(time)
    except ValueError:
        at_s = math.nan
    if not math.isfinite(at_s):
        raise EvaluationError(f"{where}: {time!r} is no number of seconds")
    if query not in queries:
        raise EvaluationError(f"{where}: {query!r} is no id of a judged query of the dataset")
    if pipeline not in pipelines:
        raise EvaluationError(f"{where}: the experiment has no pipeline {pipeline!r}; there are {', '.join(pipelines)}")
    return PlannedRequest(at_s, pipeline, query)
