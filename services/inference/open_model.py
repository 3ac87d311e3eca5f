"""Opens one model folder and runs texts through it. Owns its tokenizer, session and worker threads.

What texts and results mean is left to text_encoder and pair_scorer.
"""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from services.chassis.admission.cores import available_cores
from services.chassis.deadlines import Deadline
from services.inference.glibc_memory import trim_memory
from services.inference.micro_batches import (
    MAX_PADDED_TOKENS,
    Batch,
    batch_cap,
    cap_for_all_threads,
    count_reachable,
    form_batches,
    form_batches_by_tier,
    in_request_order,
    split_into_tiers,
)
from services.inference.model_tokenizer import ModelTokenizer, Row
from services.inference.prepared_graphs import Provider
from services.inference.profiles import GRAPH, TOKENIZER, FileName, ModelError, ModelProfile
from services.inference.read_tokens import TextTokens, record
from services.inference.session import Session
from services.inference.workers import MAX_PENDING, StopRequest, Workers

# Weight halves over eight full micro-batches: load shows within a second of work, and one slow call hardly counts.
HALF_LIFE_TOKENS = 4_096
# Without new measurements the estimate decays towards the lowest seen, by half in this time. Otherwise, after one
# stall, requests with short deadlines would never be tried, and no measurement could correct the estimate.
HALF_LIFE_S = 5.0
# The lowest seen may be too high: a process that starts on a busy machine measures that first. A request that would be
# refused by it is tried nevertheless where nothing was measured for so long.
TRIAL_S = 1.0


class TokenTime:
    """Averages measured micro-batches. Thread-safe. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._tokens = 0.0
        self._lowest = float("inf")
        self._measured_at = 0.0
        self._tried_at = clock()

    def record(self, tokens: int, seconds: float) -> None:
        """Records that one thread took `seconds` for a micro-batch of `tokens` padded tokens."""
        with self._lock:
            decay: float = 0.5 ** (tokens / HALF_LIFE_TOKENS)
            # A ratio of decayed sums, not a mean of ratios: a call over three tokens is nearly all overhead.
            self._seconds = self._seconds * decay + seconds
            self._tokens = self._tokens * decay + tokens
            self._lowest = min(self._lowest, self._seconds / self._tokens)
            self._measured_at = self._clock()

    def take_trial(self) -> bool:
        """Takes a trial if nothing was measured or tried for TRIAL_S seconds; returns whether it did."""
        with self._lock:
            now = self._clock()
            if now - max(self._measured_at, self._tried_at) < TRIAL_S:
                return False
            self._tried_at = now
            return True

    @property
    def lowest_seconds_per_token(self) -> float:
        """The least seconds per padded token so far, about those of an idle machine; 0 before the first measurement."""
        with self._lock:
            return self._lowest if self._tokens else 0.0

    @property
    def seconds_per_token(self) -> float:
        """Seconds of one thread per padded token; 0 before the first measurement, so that nothing is refused."""
        with self._lock:
            if not self._tokens:
                return 0.0
            decay: float = 0.5 ** ((self._clock() - self._measured_at) / HALF_LIFE_S)
            return max(self._lowest, self._seconds / self._tokens * decay)


Float32 = NDArray[np.float32]
S = TypeVar("S")
T = TypeVar("T")
# Gets the output of one batch, [rows, ...], and its rows; returns one result per row. Runs on the model's threads.
Postprocess = Callable[[Float32, Sequence[Row]], Iterable[Float32]]
ToRows = Callable[[list[str]], list[Row]]

# Of a GPU, unmeasured until docs/measurements/gpu.md has figures: a call of 512 tokens leaves most of it idle. Calls
# wait for one another there, so two threads suffice: one tokenises and pools while the other's call computes.
CUDA_PADDED_TOKENS, CUDA_THREADS = 16_384, 2

# Tokenising 32 passages takes some 10 ms; between two chunks another request has its turn.
TEXTS_PER_CHUNK = 32


@dataclass(frozen=True, slots=True)
class Engine:
    """Options for running a model; each model of a process may have its own."""

    provider: Provider = "cpu"
    threads: int | None = None  # None: one per available core, of a GPU CUDA_THREADS
    max_padded_tokens: int | None = None  # rows times longest row; bounds a call's memory; None: by the provider
    max_pending: int = MAX_PENDING  # batches that may wait before those of a new request

    @property
    def workers(self) -> int:
        """Threads of one call each."""
        return self.threads or (CUDA_THREADS if self.provider == "cuda" else available_cores())

    @property
    def batch_tokens(self) -> int:
        """Most padded tokens of a batch."""
        return self.max_padded_tokens or (CUDA_PADDED_TOKENS if self.provider == "cuda" else MAX_PADDED_TOKENS)


class OpenModel:
    """Tokenises texts and runs rows through one graph, on threads of its own; `close` stops them."""

    def __init__(
        self,
        profile: ModelProfile,
        folder: Path,
        engine: Engine,
        *,
        inputs: str,
        niceness: int = 0,
        graph: FileName = GRAPH,
    ) -> None:
        """Opens `folder` (blocking, below a second); raises ModelError when it does not hold the model.

        DeadlineExceeded names what clients send by the plural `inputs`. `niceness`: of the threads. `graph`: its file.
        """
        self._profile = profile
        # The session first: it verifies the files, and its error states how to get a missing one.
        self._session = Session(profile, folder, engine.provider, graph)
        self.tokenizer = ModelTokenizer(folder / TOKENIZER, profile.max_tokens)
        self.weights_sha256 = self._session.weights_sha256
        self._max_padded_tokens = engine.batch_tokens
        self.token_time = TokenTime()
        self._threads = engine.workers
        # The urgent thread encodes queries, or tokenises pairs, without waiting for a micro-batch to end. If tokenising
        # had to wait, the next micro-batches of a larger request would begin before a small one is ready.
        self._workers = Workers(
            self._threads, engine.max_pending, profile.name, inputs=inputs, urgent_threads=1, niceness=niceness
        )
        trim_memory()  # opening a graph frees large buffers

    async def map_texts(
        self, texts: Sequence[S], convert: Callable[[list[S]], list[T]], deadline: Deadline | None, *, urgent: bool
    ) -> list[T]:
        """Returns what `convert` makes of each text (a row, a length); runs it in chunks on the model's threads."""
        chunks = [list(texts[start : start + TEXTS_PER_CHUNK]) for start in range(0, len(texts), TEXTS_PER_CHUNK)]
        converted = await self._workers.run([partial(convert, chunk) for chunk in chunks], deadline, urgent=urgent)
        return [value for chunk in converted for value in chunk]

    async def document_rows(self, texts: Sequence[str], convert: ToRows, deadline: Deadline | None) -> list[Row]:
        """Returns the rows that `convert` makes of documents, and records how much of them the model reads."""
        rows = await self.map_texts(texts, convert, deadline, urgent=False)
        record(TextTokens(len(row.ids), row.ids.count(self.tokenizer.unknown_id), row.cut) for row in rows)
        return rows

    def single_rows(self, texts: Sequence[str]) -> list[Row]:
        """Returns the row of each text, with special tokens and truncated."""
        return [self.tokenizer.single(ids) for ids in self.tokenizer.ids(texts)]

    async def single_lengths(self, texts: Sequence[str], deadline: Deadline | None) -> tuple[int, ...]:
        """Counts the tokens of each text before truncation, with special tokens, on the model's threads."""

        def lengths_of(chunk: list[str]) -> list[int]:
            return [self.tokenizer.single_length(ids) for ids in self.tokenizer.ids(chunk)]

        return tuple(await self.map_texts(texts, lengths_of, deadline, urgent=False))

    async def infer_text(
        self, text: str, convert: ToRows, postprocess: Postprocess, deadline: Deadline | None
    ) -> Float32:
        """Returns what `map_texts` and `infer` give for a query, in one urgent turn of a thread instead of two."""
        tasks = [lambda: self._run_batch(convert([text]), postprocess)]
        (results,) = await self._workers.run(tasks, deadline, urgent=True)
        return results[0]

    async def infer(self, rows: Sequence[Row], postprocess: Postprocess, deadline: Deadline | None) -> list[Float32]:
        """Returns the postprocessed output of the graph for each row, in their order.

        Raises ModelError when a result is not finite, because NaN and infinity cannot be ranked.
        """
        lengths = [len(row.ids) for row in rows]
        cap = cap_for_all_threads(lengths, self._threads, self._max_padded_tokens)
        batches = form_batches(lengths, cap, batchable=self._session.batchable)
        tasks = [partial(self._run_batch, [rows[place] for place in batch], postprocess) for batch in batches]
        results = await self._workers.run(tasks, deadline, urgent=False)
        return in_request_order(batches, results)

    def token_budget(self, deadline: Deadline) -> float:
        """Estimates the padded tokens that one thread has time for, sharing it with what waits now."""
        share_s = deadline.remaining_s * self._workers.share
        token_s = self.token_time.seconds_per_token
        return share_s / token_s if token_s else math.inf

    def count_reachable(self, costs: Sequence[int], deadline: Deadline) -> int:
        """Estimates how many of the first rows, of `costs` tokens each, the deadline leaves time for."""
        return count_reachable(costs, self._threads, self.token_budget(deadline))

    def seconds_if_idle(self, costs: Sequence[int]) -> float | None:
        """Estimates how long rows of `costs` tokens each take on a machine that does nothing else; None unmeasured."""
        tokens = max(sum(costs) / self._threads, max(costs))  # a row has one thread
        return tokens * self.token_time.lowest_seconds_per_token or None

    async def infer_until(
        self,
        rows: Sequence[Row],
        postprocess: Postprocess,
        sizes: Sequence[int],
        deadline: Deadline,
        *,
        trial: bool = False,
    ) -> list[Float32 | None]:
        """Returns results like `infer`, with None for rows that the deadline cut off; later rows are cut off first.

        A candidate has as many consecutive rows as `sizes` says; no tier ends within one.
        A micro-batch that is expected to miss the deadline is not begun, and none after it; in a `trial` they are begun
        all the same, until the deadline: it measures the time that this expectation is made from.
        """
        lengths, budget = [len(row.ids) for row in rows], self.token_budget(deadline)
        batches = form_batches_by_tier(
            lengths,
            split_into_tiers(lengths, sizes, self._threads, budget),
            batch_cap(cap_for_all_threads(lengths, self._threads, self._max_padded_tokens), budget),
            batchable=self._session.batchable,
        )

        def task(batch: Batch) -> list[Float32]:
            tokens = len(batch) * max(lengths[place] for place in batch)
            if not trial and tokens * self.token_time.seconds_per_token > deadline.remaining_s:
                raise StopRequest
            return self._run_batch([rows[place] for place in batch], postprocess)

        results = await self._workers.run_until([partial(task, batch) for batch in batches], deadline)
        outputs: list[Float32 | None] = [None] * len(rows)
        for batch, of_batch in zip(batches, results, strict=True):
            for place, result in zip(batch, of_batch or (), strict=False):
                outputs[place] = result
        return outputs

    def _run_batch(self, rows: list[Row], postprocess: Postprocess) -> list[Float32]:
        """Runs one micro-batch in the calling thread, and records how long it took."""
        padded = len(rows) * max(len(row.ids) for row in rows)
        started = time.perf_counter()
        output = self._session.run(rows)
        self.token_time.record(padded, time.perf_counter() - started)
        results = list(postprocess(output, rows))
        if not all(np.isfinite(result).all() for result in results):
            raise ModelError(f"The model {self._profile.name} gave a result that is not finite.")
        return results

    def close(self) -> None:
        """Stops the threads; waiting requests raise Unavailable."""
        self._workers.close()
