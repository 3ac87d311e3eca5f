"""Where a run lives: one folder, one file per step, written whole or not at all."""

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

# File → the command that writes it, for the sentence that says what is missing.
WRITTEN_BY = {
    "experiment.json": "ingest",
    "manifest.json": "rank",
    "ingest.json": "ingest",
    "rank.json": "rank",
    "recall.json": "rank",
    "quality.json": "quality",
    "report.json": "report",
}


class RunFolder:
    """The files of one evaluation, `<utc>-<experiment>-<hash>`. Steps read what earlier ones left there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, runs: Path, experiment: Experiment) -> "RunFolder":
        """A new folder with the experiment in it."""
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
        """From now on `latest` beside this folder is this folder. For runs with queries: a mere load is no result."""
        latest, fresh = self.path.with_name(LATEST), self.path.with_name(f".{LATEST}-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(self.path.name)
        fresh.replace(latest)  # atomic: there is no moment without a latest

    @staticmethod
    def newest(runs: Path) -> Path:
        """The folder that was opened last (their names begin with the time)."""
        found = sorted(path.parent for path in runs.glob("*/experiment.json") if path.parent.name != LATEST)
        if not found:
            raise EvaluationError(f"{runs}: no run there; start one with `{command_line('ingest', 'EXPERIMENT')}`")
        return found[-1]

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing folder (or `latest`). Raises EvaluationError when it is none."""
        if not (path / "experiment.json").is_file():
            if path.name == LATEST and any(path.parent.glob("*/experiment.json")):
                raise EvaluationError(f"{path}: no run has sent its queries yet; `{command_line('rank')}` does")
            raise EvaluationError(f"{path}: no run there; start one with `{command_line('ingest', 'EXPERIMENT')}`")
        return cls(path.resolve())

    @property
    def experiment(self) -> Experiment:
        """What this run is of."""
        return self.read("experiment.json", Experiment)

    def answers(self, arm: str) -> Path:
        """What became of each query of an arm, in the order in which they were sent."""
        return self._within("answers", f"{arm}.jsonl")

    def run_file(self, arm: str) -> Path:
        """An arm's rankings in TREC format."""
        return self._within("runs", f"{arm}.trec")

    def per_query(self, arm: str) -> Path:
        """An arm's metrics by query."""
        return self._within("quality", f"{arm}.jsonl")

    def has(self, name: str) -> bool:
        """Whether a step has left its file."""
        return (self.path / name).is_file()

    def read(self, name: str, model: type[Value]) -> Value:
        """What a step left. Raises EvaluationError naming the step that is missing."""
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
        """Replaces a file: a reader sees the old one or the new one."""
        part = self.path / f".{name}.part"
        part.write_text(text, encoding="utf-8")
        part.replace(self.path / name)

    def _within(self, directory: str, name: str) -> Path:
        (self.path / directory).mkdir(exist_ok=True)
        return self.path / directory / name
