"""Defines what the service reports of a run: its state, its step, how far that is."""

import re
from typing import Annotated, Literal

from pydantic import Field

from evaluator.progress import StepProgress
from services.contracts.base import NAME, Wire

# The name of a run folder; of a run over several datasets, with the dataset's name behind it.
RUN_ID = rf"[0-9]{{8}}T[0-9]{{6,9}}Z-[a-z0-9][a-z0-9_-]{{0,63}}-[0-9a-f]{{8}}(/{NAME})?"
RUN_NAME = re.compile(RUN_ID)
# A run, alone or with one of its pipelines. Not a path: no file is read by a name that a caller chose.
COMPARED_RUN = re.compile(f"{RUN_ID}(:{NAME})?")
RunId = Annotated[str, Field(pattern=f"^{RUN_ID}$")]
Ended = Literal["done", "failed", "interrupted"]


class JobState(Wire):
    """Progress of an experiment. `id` is the name of its run folder (SUITE/DATASET of one over several datasets),
    `step` the running step or the last one. A cancelled run is `interrupted`, and `detail` says so."""

    id: str
    state: Literal["running", "done", "failed", "interrupted"]
    step: str
    detail: str = ""
    progress: StepProgress | None = None  # of the part of the step that runs; null: none has begun, or it has ended


class JobList(Wire):
    """All runs, the newest first."""

    experiments: tuple[JobState, ...]
