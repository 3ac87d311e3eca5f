"""An open model: the tokenizer, the session and the threads of one folder. embed.py and score.py give it a meaning."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from services.inference.batcher import MAX_PADDED_TOKENS, form, restored
from services.inference.profiles import TOKENIZER, CrossEncoderProfile, EncoderProfile, ModelError
from services.inference.session import Provider, Session
from services.inference.tokens import Row, Tokens
from services.inference.workers import MAX_PENDING, Workers, available_cores

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
    max_pending: int = MAX_PENDING  # batches that may wait when a new request is still accepted


class OpenModel:
    """Runs rows through one graph; close it to stop its threads."""

    def __init__(self, profile: EncoderProfile | CrossEncoderProfile, folder: Path, engine: Engine) -> None:
        """Opens `folder` (blocking, below a second); raises ModelError when it does not hold the model."""
        self._profile = profile
        # The session first: it checks the files, and says what to do about a missing one.
        self._session = Session(profile, folder, engine.provider)
        self.tokens = Tokens(folder / TOKENIZER, profile.max_tokens)
        self.weights_sha256 = self._session.weights_sha256
        self._max_padded_tokens = engine.max_padded_tokens
        # An encoder's queries never wait behind passages; a cross-encoder has nothing urgent.
        self._workers = Workers(
            engine.threads or available_cores(),
            engine.max_pending,
            profile.name,
            urgent_threads=1 if isinstance(profile, EncoderProfile) else 0,
        )

    async def rows(
        self, texts: Sequence[str], rows_of: Callable[[list[str]], list[T]], deadline: float | None, *, urgent: bool
    ) -> list[T]:
        """What `rows_of` makes of each text (a row, its length) on the model's threads."""
        chunks = [list(texts[start : start + TEXTS_A_CHUNK]) for start in range(0, len(texts), TEXTS_A_CHUNK)]
        made = await self._workers.run([partial(rows_of, chunk) for chunk in chunks], deadline, urgent=urgent)
        return [row for chunk in made for row in chunk]

    async def results(
        self,
        rows: Sequence[Row],
        finish: Callable[[Float32, list[int]], Float32],
        deadline: float | None,
        *,
        urgent: bool,
    ) -> Float32:
        """What `finish` makes of the graph's output for each row, in their order: fp32 [rows, ...].

        `finish` gets one batch's output and its row lengths, on the model's threads. Raises ModelError when a result
        is not finite: such a score has no place in a ranking.
        """
        batches = form([len(row.ids) for row in rows], self._max_padded_tokens, batchable=self._profile.batchable)

        def task(batch: Sequence[int]) -> list[Float32]:
            chosen = [rows[place] for place in batch]
            results = finish(self._session.run(chosen), [len(row.ids) for row in chosen])
            if not np.isfinite(results).all():
                raise ModelError(f"The model {self._profile.name} gave a result that is not finite.")
            return list(results)

        results = await self._workers.run([partial(task, batch) for batch in batches], deadline, urgent=urgent)
        return np.array(restored(batches, results), dtype=np.float32)

    def close(self) -> None:
        """Stops the threads; waiting requests raise WorkersClosed."""
        self._workers.close()
