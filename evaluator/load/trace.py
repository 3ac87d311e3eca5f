"""Reads a recorded trace, `time,query,pipeline` a line: seconds, the id of a query, the name of a pipeline."""

import math
from collections.abc import Collection
from pathlib import Path

from evaluator.csv_text import csv_rows
from evaluator.errors import EvaluationError
from evaluator.load.traffic import PlannedRequest

COLUMNS = ["time", "query", "pipeline"]


def read_trace(path: Path, queries: Collection[str], pipelines: Collection[str]) -> list[PlannedRequest]:
    """Returns the requests in the order of time, the first at 0. Raises EvaluationError with the line at fault."""
    requests = []
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv_rows(file)
        if next(rows, None) != (1, COLUMNS):
            raise EvaluationError(f"{path}: the first line of a trace is {','.join(COLUMNS)}")
        for number, row in rows:
            where = f"{path}:{number}"
            if len(row) != len(COLUMNS):
                raise EvaluationError(f"{where}: a line of a trace is {','.join(COLUMNS)}")
            requests.append(_request(where, *row, queries=queries, pipelines=pipelines))
    if not requests:
        raise EvaluationError(f"{path}: the trace has no requests")
    requests.sort(key=lambda request: request.at_s)
    first_s = requests[0].at_s
    return [request._replace(at_s=request.at_s - first_s) for request in requests]


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
