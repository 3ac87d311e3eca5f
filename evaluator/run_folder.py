"""Reads and writes the files of a run: one folder, one file per step, written atomically."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from evaluator.command_line import command_line
from evaluator.errors import EvaluationError
from evaluator.experiment import Experiment
from services.contracts.base import Wire

Value = TypeVar("Value", bound=Wire)

LATEST = "latest"

# File → the command that writes it, for messages about a missing file.
WRITTEN_BY = {
    "experiment.json": "ingest",
    "manifest.json": "rank",
    "dataset.json": "ingest",
    "ingest.json": "ingest",
    "rank.json": "rank",
    "recall.json": "rank",
    "quality.json": "quality",
    "report.json": "report",
}


class RunFolder:
    """Owns the folder of one run, `<utc>-<experiment>-<hash>`. Steps read the files of earlier steps."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, runs: Path, experiment: Experiment) -> "RunFolder":
        """Creates a folder with the experiment in it."""
        now = datetime.now(UTC)
        path = runs / f"{now:%Y%m%dT%H%M%SZ}-{experiment.name}-{experiment.fingerprint}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:  # the same experiment twice in a second
            path = path.with_name(f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z{path.name[16:]}")
            path.mkdir()
        folder = cls(path)
        folder.write("experiment.json", experiment)
        return folder

    def point_latest_here(self) -> None:
        """Points the link `latest` to this folder. Called for runs that sent queries, not for a load alone."""
        latest, fresh = self.path.with_name(LATEST), self.path.with_name(f".{LATEST}-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(self.path.name)
        fresh.replace(latest)  # atomic: `latest` always exists

    @staticmethod
    def newest(runs: Path) -> Path:
        """Returns the folder created last (names begin with the time)."""
        found = sorted(path.parent for path in runs.glob("*/experiment.json") if path.parent.name != LATEST)
        if not found:
            raise EvaluationError(f"{runs}: no run there; start one with `{command_line('ingest', 'EXPERIMENT')}`")
        return found[-1]

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Opens an existing folder (or `latest`). Raises EvaluationError when it is not a run."""
        if not (path / "experiment.json").is_file():
            if path.name == LATEST and any(path.parent.glob("*/experiment.json")):
                raise EvaluationError(f"{path}: no run has sent its queries yet; `{command_line('rank')}` does")
            raise EvaluationError(f"{path}: no run there; start one with `{command_line('ingest', 'EXPERIMENT')}`")
        return cls(path.resolve())

    @property
    def experiment(self) -> Experiment:
        """The experiment of this run."""
        return self.read("experiment.json", Experiment)

    def answers(self, arm: str) -> Path:
        """Returns the file with the outcome of each query of an arm, in sending order."""
        return self._within("answers", f"{arm}.jsonl")

    def run_file(self, arm: str) -> Path:
        """Returns the file with an arm's rankings in TREC format."""
        return self._within("runs", f"{arm}.trec")

    def per_query(self, arm: str) -> Path:
        """Returns the file with an arm's metrics by query."""
        return self._within("quality", f"{arm}.jsonl")

    def has(self, name: str) -> bool:
        """Returns whether a step has written its file."""
        return (self.path / name).is_file()

    def read(self, name: str, model: type[Value]) -> Value:
        """Reads the file of a step. Raises EvaluationError naming the step that is missing."""
        try:
            return model.model_validate_json((self.path / name).read_bytes())
        except FileNotFoundError as error:
            step = WRITTEN_BY.get(name, "run")
            words = ("ingest", "EXPERIMENT") if step == "ingest" else (step, "--run", str(self.path))
            raise EvaluationError(f"{self.path}: no {name}; run `{command_line(*words)}` first") from error
        except ValidationError as error:
            raise EvaluationError(f"{self.path / name}: not of this version: {error.errors()[0]['msg']}") from error

    def write(self, name: str, value: Wire) -> None:
        """Replaces a step's file."""
        self.write_text(name, value.model_dump_json(indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Replaces a file atomically."""
        part = self.path / f".{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(self.path / name)

    def _within(self, directory: str, name: str) -> Path:
        (self.path / directory).mkdir(exist_ok=True)
        return self.path / directory / name
