"""An open model: the tokenizer, the session and the threads of one folder. embed.py and score.py give it a meaning."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.inference.cores import available_cores
from services.inference.deadline_tiers import batch_cap, reach, tiers
from services.inference.glibc_memory import trim
from services.inference.graph import Arithmetic, Library, Provider, Runtime
from services.inference.micro_batches import MAX_PADDED_TOKENS, Batch, form, in_tiers, restored, shared_cap
from services.inference.model_tokenizer import Row, Tokens
from services.inference.profiles import TOKENIZER, CrossEncoderProfile, EncoderProfile, ModelError
from services.inference.session import Session
from services.inference.token_time import Pace
from services.inference.workers import MAX_PENDING, StopRequest, Workers

Float32 = NDArray[np.float32]
T = TypeVar("T")

# Tokenising 32 passages takes some 10 ms: between two chunks another request has its turn.
TEXTS_A_CHUNK = 32


@dataclass(frozen=True, slots=True)
class Engine:
    """How a model is run; every model of a process may have its own."""

    provider: Provider = "cpu"
    threads: int | None = None  # None: one per available core
    max_padded_tokens: int = MAX_PADDED_TOKENS  # rows times longest row of a batch; bounds the memory of a call
    max_pending: int = MAX_PENDING  # batches that may wait before those of a new request
    library: Library = "onnxruntime"
    arithmetic: Arithmetic = "f32"


class OpenModel:
    """Runs rows through one graph; close it to stop its threads."""

    def __init__(
        self, profile: EncoderProfile | CrossEncoderProfile, folder: Path, engine: Engine, *, inputs: str
    ) -> None:
        """Opens `folder` (blocking, below a second); raises ModelError when it does not hold the model.

        `inputs` is what the callers send, in the plural, as DeadlineExceeded names it.
        """
        self._profile = profile
        # The session first: it checks the files, and says what to do about a missing one.
        workers = (engine.threads or available_cores()) + 1  # one more for what is urgent
        self._session = Session(profile, folder, Runtime(engine.library, engine.provider, engine.arithmetic, workers))
        self.tokens = Tokens(folder / TOKENIZER, profile.max_tokens)
        self.weights_sha256 = self._session.weights_sha256
        self._max_padded_tokens = engine.max_padded_tokens
        self._pace = Pace()
        self._threads = engine.threads or available_cores()
        # For what never waits for a micro-batch to end: an encoder's queries, a cross-encoder's tokenising. A request
        # that got its tokens late would find that the next micro-batches of a larger one had begun meanwhile.
        self._workers = Workers(self._threads, engine.max_pending, profile.name, inputs=inputs, urgent_threads=1)
        trim()  # of what opening took

    async def rows(
        self, texts: Sequence[str], rows_of: Callable[[list[str]], list[T]], deadline: Deadline | None, *, urgent: bool
    ) -> list[T]:
        """What `rows_of` makes of each text (a row, its length) on the model's threads."""
        chunks = [list(texts[start : start + TEXTS_A_CHUNK]) for start in range(0, len(texts), TEXTS_A_CHUNK)]
        made = await self._workers.run([partial(rows_of, chunk) for chunk in chunks], deadline, urgent=urgent)
        return [row for chunk in made for row in chunk]

    async def results(
        self,
        rows: Sequence[Row],
        finish: Callable[[Float32, list[int]], Float32],
        deadline: Deadline | None,
        *,
        urgent: bool,
    ) -> Float32:
        """What `finish` makes of the graph's output for each row, in their order: fp32 [rows, ...].

        `finish` gets one batch's output and its row lengths, on the model's threads. Raises ModelError when a result
        is not finite: such a score has no place in a ranking.
        """
        lengths = [len(row.ids) for row in rows]
        cap = shared_cap(lengths, self._threads, self._max_padded_tokens)
        batches = form(lengths, cap, batchable=self._session.batchable)
        tasks = [partial(self._run, [rows[place] for place in batch], finish) for batch in batches]
        results = await self._workers.run(tasks, deadline, urgent=urgent)
        return np.array(restored(batches, results), dtype=np.float32)

    def budget(self, deadline: Deadline) -> float:
        """Padded tokens that one thread has time for until `deadline`, should all who wait now go on waiting too."""
        left_s = deadline.remaining_s / (1 + self._workers.waiting_requests)
        return left_s / self._pace.token_s if self._pace.token_s else math.inf

    def reach(self, costs: Sequence[int], deadline: Deadline) -> int:
        """How many of the first rows of so many tokens there is time for until `deadline`, as far as is known."""
        return reach(costs, self._threads, self.budget(deadline))

    async def results_until(
        self, rows: Sequence[Row], finish: Callable[[Float32, list[int]], Float32], deadline: Deadline
    ) -> list[Float32 | None]:
        """Like `results`, but None for rows that there was no time for: later ones rather than earlier ones.

        Nothing begins that would not end in time at the present pace, and then nothing after it either.
        """
        lengths, budget = [len(row.ids) for row in rows], self.budget(deadline)
        batches = in_tiers(
            lengths,
            tiers(lengths, self._threads, budget),
            batch_cap(shared_cap(lengths, self._threads, self._max_padded_tokens), budget),
            batchable=self._session.batchable,
        )

        def task(batch: Batch) -> list[Float32]:
            tokens = len(batch) * max(lengths[place] for place in batch)
            if tokens * self._pace.token_s > deadline.remaining_s:
                raise StopRequest
            return self._run([rows[place] for place in batch], finish)

        results = await self._workers.run_until([partial(task, batch) for batch in batches], deadline)
        found: list[Float32 | None] = [None] * len(rows)
        for batch, of_batch in zip(batches, results, strict=True):
            for place, result in zip(batch, of_batch or (), strict=False):
                found[place] = result
        return found

    def _run(self, rows: list[Row], finish: Callable[[Float32, list[int]], Float32]) -> list[Float32]:
        """One micro-batch, on a thread of the workers."""
        lengths = [len(row.ids) for row in rows]
        started = time.perf_counter()
        output = self._session.run(rows)
        self._pace.saw(len(rows) * max(lengths), time.perf_counter() - started)
        results = finish(output, lengths)
        if not np.isfinite(results).all():
            raise ModelError(f"The model {self._profile.name} gave a result that is not finite.")
        return list(results)

    def close(self) -> None:
        """Stops the threads; waiting requests raise Unavailable."""
        self._workers.close()
