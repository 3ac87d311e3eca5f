"""Owns the folder of a run: one file per step, written atomically, with the sha256 of what it was made from.

Leaves what the files hold to the steps.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from evaluator.datasets.text_files import sha256
from evaluator.errors import EvaluationError, command_line
from evaluator.experiments.experiment import Experiment
from services.contracts.base import Wire
from services.files.disk_writes import write_whole
from services.files.regular_file import open_lock, read_regular

Value = TypeVar("Value", bound=Wire)

LATEST = "latest"
CONDITIONS = "conditions.json"  # what the machine did while the queries were timed (timing_validity)
SUITE = "suite.json"  # of a folder that holds the runs of several datasets (suite_runs)

# File → the command that writes it, for messages about a missing file.
WRITTEN_BY = {
    "experiment.json": "ingest",
    "manifest.json": "rank",
    "dataset.json": "ingest",
    "ingest.json": "ingest",
    "imported.json": "import",
    "rank.json": "rank",
    "recall.json": "rank",
    "costs.json": "rank",
    "quality.json": "quality",
    "report.json": "report",
    "load.json": "load",
    "capacity.json": "load",
    "against.json": "load",
    "candidates.json": "attribute",
    "attribution.json": "attribute",
    "replay.json": "replay",
    SUITE: "ingest",
    "summary.json": "report",
}
# A run is whole without them. They were measured beside the ranking, with its manifest.
BESIDE_RANKING = (
    "load.json", "capacity.json", "against.json", "candidates.json", "attribution.json", "replay.json",
)  # fmt: skip
LOADS, LOAD_PAGE = ("load.json", "against.json"), "load.md"
# Ten times the answers of a large run. A file with holes has any size, and would be hashed for hours.
MOST_SOURCE_BYTES = 16_000_000_000


class StepFile(Wire):
    """A file that a step writes. `made_from`: sha256 by path within the run's folder, of every file that it read."""

    made_from: dict[str, str] = {}


class RunFolder:
    """Owns the folder of one run, `<utc>-<experiment>-<hash>`. Steps read the files of earlier steps."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()  # `hashes` takes absolute paths and names within it

    @classmethod
    def create(cls, runs: Path, experiment: Experiment) -> "RunFolder":
        """Creates a folder with the experiment in it."""
        folder = cls(new_folder(runs, experiment.name, experiment.fingerprint))
        with removed_on_error(folder.path):
            folder.write("experiment.json", experiment)
        return folder

    @classmethod
    @contextmanager
    def created(cls, runs: Path, experiment: Experiment) -> Iterator["RunFolder"]:
        """Creates a folder, and removes it again where an error ends the block before requests lie in `load/`."""
        folder = cls.create(runs, experiment)
        try:
            yield folder
        except BaseException:
            if not any((folder.path / "load").glob("*")):
                shutil.rmtree(folder.path)
            raise

    def point_latest_here(self) -> None:
        """Points the link `latest` to this folder, or to that of its suite. Called for runs that sent queries."""
        path = self.path.parent if (self.path.parent / SUITE).is_file() else self.path
        latest, fresh = path.with_name(LATEST), path.with_name(f".{LATEST}-{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(path.name)
        fresh.replace(latest)  # atomic: `latest` always exists

    @staticmethod
    def every(runs: Path) -> list[Path]:
        """Returns the folders of all runs, those of suites too, in the order of their creation."""
        members = [path for path in runs.glob("*/*/experiment.json") if (path.parent.parent / SUITE).is_file()]
        return _in_order(runs, [*runs.glob("*/experiment.json"), *members])

    @staticmethod
    def newest(runs: Path) -> Path:
        """Returns the folder created last, of a run or of a suite."""
        folders = _in_order(runs, [*runs.glob("*/experiment.json"), *runs.glob(f"*/{SUITE}")])
        if not folders:
            raise EvaluationError(f"{runs}: no run there; start one with `{command_line('run', 'demo')}`")
        return folders[-1]

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """Opens an existing folder (or `latest`). Raises EvaluationError when it is not a run."""
        if (path / SUITE).is_file():
            held = ", ".join(sorted(file.parent.name for file in path.glob("*/experiment.json")))
            raise EvaluationError(f"{path} holds several runs; name one of them with --run: {held}")
        if not (path / "experiment.json").is_file():
            if path.name == LATEST and any(path.parent.glob("*/experiment.json")):
                raise EvaluationError(f"{path}: no run has sent its queries yet; `{command_line('rank')}` does")
            raise EvaluationError(f"{path}: no run there; start one with `{command_line('run', 'demo')}`")
        return cls(path)

    @property
    def name(self) -> str:
        """The folder's name within the folder of all runs."""
        parent = self.path.parent
        return f"{parent.name}/{self.path.name}" if (parent / SUITE).is_file() else self.path.name

    @property
    def runs(self) -> Path:
        """The folder of all runs."""
        parent = self.path.parent
        return parent.parent if (parent / SUITE).is_file() else parent

    @property
    def experiment(self) -> Experiment:
        """The experiment of this run."""
        return self.read("experiment.json", Experiment)

    def answers(self, arm: str) -> Path:
        """Returns the file with the outcome of each query of an arm, in sending order."""
        return self.path / "answers" / f"{arm}.jsonl"

    def run_file(self, arm: str) -> Path:
        """Returns the file with an arm's rankings in TREC format."""
        return self.path / "runs" / f"{arm}.trec"

    @property
    def asked(self) -> bool:
        """Whether a query of the run was answered, also in a step that has not ended."""
        return any((self.path / "answers").glob("*.jsonl"))

    def per_query(self, arm: str) -> Path:
        """Returns the file with an arm's metrics by query."""
        return self.path / "quality" / f"{arm}.jsonl"

    def forget_answers(self) -> None:
        """Removes the answers and the file that marks that `rank` has ended. Later steps' files stay, and are stale."""
        (self.path / CONDITIONS).unlink(missing_ok=True)
        for path in (self.path / "answers").glob("*.jsonl"):
            path.unlink()
        (self.path / "rank.json").unlink(missing_ok=True)  # last: a kill before it leaves an ended step, not this one

    def has(self, name: str) -> bool:
        """Returns whether a step has written its file."""
        return (self.path / name).is_file()

    def read(self, name: str, model: type[Value]) -> Value:
        """Reads the file of a step. Raises EvaluationError, naming the step to run: no file, or its input changed."""
        record = self.read_stale(name, model)
        if isinstance(record, StepFile):
            self._expect_unchanged(name, record.made_from)
        return record

    def read_stale(self, name: str, model: type[Value]) -> Value:
        """Reads the file of a step as `read` does, also one whose input has changed since."""
        try:
            return model.from_record(read_regular(self.path / name))
        except FileNotFoundError as error:
            if name == "rank.json" and not self.asked and (loads := list(filter(self.has, LOADS))):
                again = command_line("run", str(self.path / "experiment.json"))
                raise EvaluationError(
                    f"{self.path}: has a load ({loads[0]}), but no ranking of the queries; `{again}` ranks "
                    "them in a run of its own"
                ) from error
            raise EvaluationError(f"{self.path}: no {name}; run `{self._step(name)}` first") from error
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise EvaluationError(
                f"{self.path / name}: not of this version: {reason}; run `{self._step(name)}` again"
            ) from error
        except OSError as error:  # a directory, no permission
            raise EvaluationError(f"{self.path / name}: {error.strerror}") from error

    def hashes(self, *names: str | Path) -> dict[str, str]:
        """Returns the sha256 of files of this folder, by path within it: what a step's file was made from."""
        paths = [self.path / name for name in names]
        return {path.relative_to(self.path).as_posix(): sha256(path) for path in paths}

    def _expect_unchanged(self, name: str, made_from: Mapping[str, str]) -> None:
        for source, digest in made_from.items():
            if not Path(os.path.realpath(self.path / source)).is_relative_to(self.path):
                raise EvaluationError(
                    f"{self.path / name}: made_from names {source!r}, and a step reads files of its run alone; "
                    f"run `{self._step(name)}` again"
                )
            try:
                changed = sha256(self.path / source, MOST_SOURCE_BYTES) != digest
            except FileNotFoundError:
                changed = True
            except OSError as error:
                raise EvaluationError(f"{self.path / source}: {error.strerror}") from error
            if changed:
                otherwise = f", or remove {name}" if name in BESIDE_RANKING else ""
                raise EvaluationError(
                    f"{self.path}: {source} is not the one that {name} was made from; "
                    f"run `{self._step(name)}` again{otherwise}"
                )

    def _step(self, name: str) -> str:
        """Returns the command that writes a file."""
        match WRITTEN_BY[name]:
            case "ingest":
                return command_line("ingest", str(self.path / "experiment.json"))
            case step if step == "import" or (step == "rank" and self.has("imported.json")):
                return command_line("import", self.experiment.dataset, "FILE")
            case "attribute" | "replay" as step:
                return command_line(step, str(self.path))
            case step:
                return command_line(step, "--run", str(self.path))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other processes from sending this run's queries. Raises EvaluationError while one does."""
        with self.kept(), open_lock(self.path / ".lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise EvaluationError(f"{self.path}: another process sends this run's queries; wait for it") from error
            yield

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Turns the errors of a block into one that names the folder, where it was removed meanwhile."""
        try:
            yield
        except (EvaluationError, OSError) as error:
            if self.has("experiment.json"):
                raise
            raise EvaluationError(f"{self.path}: the folder of this run was removed; begin a new run") from error

    def write(self, name: str, value: Wire) -> None:
        """Replaces a step's file."""
        self.write_text(name, value.model_dump_json(indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Replaces a file atomically."""
        write_whole(self.path / name, text)


def named_place(word: str, runs: Path) -> tuple[Path, str | None] | None:
    """Returns the folder of a run or suite that a word names, and the pipeline of `RUN:PIPELINE`; None: no folder.

    A name is looked for here, then in the folder of all runs.
    """
    path, colon, arm = word.rpartition(":")
    for name, pipeline in ((word, None), (path, arm)) if colon else ((word, None),):
        for place in (Path(name), runs / name):
            if place.is_dir():
                return place, pipeline
    return None


@contextmanager
def removed_on_error(folder: Path) -> Iterator[None]:
    """Removes a folder where an error ends the block: what was begun in it is of no use."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def writable(path: Path) -> Path:
    """Returns the path of a file that is about to be written, after creating its folder."""
    path.parent.mkdir(exist_ok=True)
    return path


def new_folder(runs: Path, name: str, fingerprint: str) -> Path:
    """Creates the folder `<utc>-<name>-<fingerprint>`: the order of the names is that of the creation."""
    runs.mkdir(parents=True, exist_ok=True)
    while True:
        stamp = utc_stamp(datetime.now(UTC))
        path = runs / f"{stamp}-{name}-{fingerprint}"
        with suppress(FileExistsError):  # another process has created it in between
            if not any(runs.glob(f"{stamp}-*")):
                path.mkdir()
                return path


def utc_stamp(now: datetime) -> str:
    """Returns a time to the millisecond, as the names of folders have it: 20261124T153144245Z."""
    return f"{now:%Y%m%dT%H%M%S}{now.microsecond // 1000:03d}Z"


def _in_order(runs: Path, files: Iterable[Path]) -> list[Path]:
    """Sorts the files' folders by the time with which a run's or suite's name begins, some in whole seconds."""
    names = {file.parent: file.relative_to(runs).parts[0] for file in files}
    folders = [folder for folder, name in names.items() if name != LATEST]
    return sorted(folders, key=lambda folder: (names[folder].partition("Z")[0].ljust(18, "0"), names[folder], folder))
