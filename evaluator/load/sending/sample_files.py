"""Owns the sample files of a load: the requests of a slice are written when it ends, so that no later fault loses them.

Leaves the figures and what is done after an interruption to the step.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evaluator.load.sending.samples import write_samples
from evaluator.load.sending.time_slices import TimeSlice
from evaluator.progress import say
from evaluator.runs.run_folder import RunFolder, writable


class SampleFiles:
    """Writes `load/<pipeline>-<traffic>.jsonl` of one load, anew, slice by slice."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder.path / "load"
        self._begun: set[Path] = set()
        self._last: TimeSlice | None = None
        self._drives = 0

    def path(self, pipeline: str, traffic: str) -> Path:
        """Returns the file of a point. `traffic`: its label."""
        return self._folder / f"{pipeline}-{traffic}.jsonl"

    def keep(self, part: TimeSlice) -> None:
        """Appends the requests of a slice. The first slice of a point replaces the file of an earlier load."""
        path = writable(self.path(part.pipeline, part.traffic))
        write_samples(path, part.loaded.samples, append=path in self._begun)
        self._begun.add(path)
        self._last = part
        self._drives += 1

    @contextmanager
    def telling(self, missing: str = "load.json") -> Iterator[None]:
        """Says what is there, and the file that is not, when the block ends with an error or an interruption."""
        whole = False
        try:
            yield
            whole = True
        finally:
            if not whole and self._last is not None:
                last = f"{self._last.pipeline} at {self._last.traffic}, repeat {self._last.repeat + 1}"
                say(
                    f"the load ended early, without {missing}: {self._folder}/*.jsonl hold what was sent "
                    f"(drives: {self._drives}, the last one of {last})"
                )
