"""Defines candidates.json and candidates.jsonl: the hits of every stage and leg for each query of a run."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import FiniteFloat, ValidationError

from evaluator.errors import EvaluationError
from evaluator.runs.run_folder import RunFolder, StepFile
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline, Retrieve
from services.contracts.query import Degradation, StageCandidates
from services.files.regular_file import open_regular

CANDIDATES = "candidates.json"
LINES = "candidates.jsonl"


class AskedLeg(Wire):
    """A leg as it was asked for alone. `name` is that of its lists in the lines.

    `exact`: the exact search of the same backend, of an approximate leg; None for other legs.
    """

    name: str
    retrieve: Retrieve
    exact: Retrieve | None


class CandidatesReport(StepFile):
    """candidates.json, the last file of the step. `rerankers`: those whose scores are in the lines, by name."""

    made_from: dict[str, str]
    pipelines: dict[str, Pipeline]
    legs: tuple[AskedLeg, ...]
    rerankers: tuple[str, ...]
    top: Count  # hits of an answer
    queries: Count
    failed: Count  # requests without an answer


class ArmCandidates(Wire):
    """What the stages of a pipeline gave for a query, and the ids of its answer, best first."""

    hits: tuple[str, ...] = ()
    stages: dict[str, StageCandidates] = {}
    degraded: tuple[Degradation, ...] = ()
    error: str | None = None


class ModelScores(Wire):
    """Scores of a re-ranker's model by document, and the weight that it recommends."""

    weight: FiniteFloat
    scores: dict[str, FiniteFloat]


class QueryCandidates(Wire):
    """A line of candidates.jsonl."""

    query: str
    arms: dict[str, ArmCandidates]
    legs: dict[str, StageCandidates] = {}  # by name of the leg, as deep as it was asked
    exact: dict[str, StageCandidates] = {}  # by name of an approximate leg: the exact search
    scores: dict[str, ModelScores] = {}  # by name of the re-ranker
    errors: tuple[str, ...] = ()  # of requests for legs and scores


def read_candidates(path: Path) -> Iterator[QueryCandidates]:
    """Yields the lines in file order. Raises EvaluationError for a line of another version."""
    with open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                yield QueryCandidates.from_record(line)
            except ValidationError as error:
                raise EvaluationError(
                    f"{path}:{number}: no candidates of this version; delete {path} and attribute again"
                ) from error


def candidates_of(folder: RunFolder) -> tuple[CandidatesReport, Iterator[QueryCandidates]]:
    """Returns what `attribute` has collected. Raises EvaluationError where it has not."""
    return folder.read(CANDIDATES, CandidatesReport), read_candidates(folder.path / LINES)
