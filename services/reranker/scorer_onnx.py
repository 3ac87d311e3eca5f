"""The scorer that serves: a cross-encoder of models.yaml in ONNX Runtime."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded, Overloaded, Unavailable
from services.inference.model import Engine
from services.inference.profiles import CrossEncoderProfile
from services.inference.score import PairScorer
from services.inference.workers import DeadlinePassed, WorkersClosed
from services.inference.workers import Overloaded as WorkersOverloaded


class OnnxScorer:
    """Owns the session and its workers. Promises what Scorer promises."""

    def __init__(self, profile: CrossEncoderProfile, folder: Path, engine: Engine, *, passage_bytes: int = 0) -> None:
        """Opens the model (blocking, below a second). Raises ModelError in one sentence.

        `passage_bytes`: memory for the token ids of passages that come again.
        """
        self._pairs = PairScorer(profile, folder, engine, passage_bytes=passage_bytes)
        self.model = f"{profile.name}@{self._pairs.weights_sha256[:12]}"
        self.weight = profile.weight
        self.bounded = profile.activation == "sigmoid"
        self.max_tokens = profile.max_tokens

    async def score(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """One score a passage. Raises DeadlineExceeded, Overloaded, Unavailable (while shutting down)."""
        with _worker_errors():
            scores = await self._pairs.score(query, passages, deadline.at)
        return tuple(float(score) for score in scores)

    async def score_until(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float | None, ...]:
        """One score a passage, None for those that there was no time for. Raises Overloaded, Unavailable."""
        with _worker_errors():
            return tuple(await self._pairs.score_until(query, passages, deadline.at))

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Tokens of each pair before it is cut. Raises as score."""
        with _worker_errors():
            return tuple(await self._pairs.lengths(query, passages, deadline.at))

    async def close(self) -> None:
        """Ends the workers after the micro-batches that they are in."""
        self._pairs.close()


@contextmanager
def _worker_errors() -> Iterator[None]:
    try:
        yield
    except DeadlinePassed as error:
        raise DeadlineExceeded(f"{error} Send fewer passages or a larger X-Deadline-Ms.") from error
    except WorkersOverloaded as error:
        raise Overloaded(str(error)) from error
    except WorkersClosed as error:
        raise Unavailable(str(error)) from error
