"""Loads the corpus again and again as a collection of its own, while searches of the measured one are timed.

Loading is evaluator/steps/ingest.py, in this process: it does not delay the generators, which are processes of their
own, and its CPU time counts as measured, as all of this process does (evaluator/machine/machine_conditions.py).
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial

from evaluator.client.client import GatewayClient, GatewayError
from evaluator.client.retries import with_retries
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.load.sending.drives import LoadedPoint
from evaluator.load.sending.loading_figures import SliceLoading
from evaluator.progress import Advance
from evaluator.steps.ingest import ingest
from services.contracts.base import NAME

SUFFIX = "-loading"
# For the batch under way: cancelled, it would still be encoded in the idle slice that follows.
BATCH_GRACE_S = 30.0
REMOVE_ATTEMPTS = 5


class _Ended(Exception):
    """Ends loading between two batches."""


class CorpusLoader:
    """Owns the collection `<collection>-loading` at one gateway. It is there only while `loading` is entered."""

    def __init__(self, client: GatewayClient, experiment: Experiment, dataset: Dataset) -> None:
        """Raises EvaluationError where the name would be too long."""
        self.collection = f"{experiment.target}{SUFFIX}"
        if not re.fullmatch(NAME, self.collection):
            raise EvaluationError(
                f"{self.collection} is too long for a collection: --while-loading needs a shorter one"
            )
        self._client = client
        # Anew each time: a generation that is continued would not be indexed again.
        self._experiment = experiment.model_copy(update={"collection": self.collection, "rebuild": True})
        self._dataset = dataset
        self._documents = 0
        self._ending = False
        self._stopped: str | None = None

    async def expect_absent(self) -> None:
        """Raises EvaluationError where a collection of this name is there: it is removed after loading."""
        try:
            await self._client.collection(self.collection)
        except GatewayError as error:
            if error.status == 404:
                return
            raise
        raise EvaluationError(
            f"{self.collection} is a collection already, and --while-loading would remove it. If an earlier load left "
            f"it: curl -X DELETE {self._client.url}/v1/collections/{self.collection}"
        )

    @asynccontextmanager
    async def loading(self) -> AsyncIterator[None]:
        """Loads within the block, and removes the collection after it, also after an error or an interruption."""
        self._ending, self._stopped = False, None
        task = asyncio.create_task(self._load_repeatedly())
        try:
            yield
            self._ending = True
            await asyncio.wait({task}, timeout=BATCH_GRACE_S)
            if task.done():
                task.result()  # raises what nobody foresaw
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._remove()

    async def counted(self, drive: Awaitable[LoadedPoint]) -> LoadedPoint:
        """Awaits a drive and adds what was loaded from its start to its last answer."""
        before, began = self._documents, time.monotonic()
        loaded = await drive
        return replace(loaded, loading=SliceLoading(self._documents - before, time.monotonic() - began, self._stopped))

    async def _load_repeatedly(self) -> None:
        try:
            while not self._ending:
                await ingest(self._client, self._experiment, self._dataset, shown=self._counting, tell=lambda _: None)
                await self._remove()
        except _Ended:
            pass
        except EvaluationError as error:
            self._stopped = str(error)

    @contextmanager
    def _counting(self, _label: str, _total: int, _unit: str) -> Iterator[Advance]:
        def advance(documents: int, _lost: int = 0, /) -> None:
            self._documents += documents
            if self._ending:
                raise _Ended

        yield advance

    async def _remove(self) -> None:
        remove = partial(self._client.remove, self.collection)
        try:
            await with_retries(remove, "load", attempts=REMOVE_ATTEMPTS)
        except EvaluationError as error:
            if not (isinstance(error, GatewayError) and error.status == 404):  # it was not begun
                raise EvaluationError(f"{self.collection} was not removed: {error}") from error
