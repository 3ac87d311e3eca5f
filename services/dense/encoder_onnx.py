"""The encoder that serves: an encoder of models.yaml, in ONNX Runtime or OpenVINO."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded, Overloaded, Unavailable
from services.dense.encoder import Role, Vectors
from services.inference.embed import TextEncoder
from services.inference.graph import Arithmetic
from services.inference.model import Engine
from services.inference.profiles import TOKENIZER, EncoderProfile
from services.inference.workers import DeadlinePassed, WorkersClosed
from services.inference.workers import Overloaded as WorkersOverloaded
from services.vectorstore.representation import Dense, DenseVector


class OnnxEncoder:
    """Owns the session and its workers. Promises what DenseEncoder promises."""

    def __init__(self, profile: EncoderProfile, folder: Path, engine: Engine) -> None:
        """Opens the model (blocking, below a second). Raises ModelError in one sentence."""
        self._texts = TextEncoder(profile, folder, engine)
        self.representation = Dense(profile.dimension)
        self.max_tokens = profile.max_tokens
        self.stamp = stamp_of(profile, self._texts.weights_sha256, engine.arithmetic)

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """With the model's query prefix; its turn comes before that of passages."""
        with _worker_errors():
            return await self._texts.encode_query(text, deadline.at)

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """With the model's passage prefix."""
        with _worker_errors():
            return await self._texts.encode_passages(texts, deadline.at)

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        """Tokens of each text with the prefix of its role, before it is cut."""
        with _worker_errors():
            return tuple(await self._texts.lengths(texts, deadline.at, query=role == "query"))

    async def close(self) -> None:
        """Ends the workers after the micro-batches that they are in."""
        self._texts.close()


def stamp_of(profile: EncoderProfile, weights_sha256: str, arithmetic: Arithmetic = "f32") -> Mapping[str, str]:
    """All that decides the vectors of a model; which library runs it, where, and on how many threads, does not.

    In f32 the libraries agree but for rounding (the last digits of a component); in bf16 a vector is another one.
    """
    return {
        "model": profile.name,
        "weights_sha256": weights_sha256,
        "tokenizer_sha256": profile.files[TOKENIZER],
        "precision": profile.precision if arithmetic == "f32" else f"{profile.precision} in {arithmetic}",
        "pooling": profile.pooling,
        "normalise": str(profile.normalise).lower(),
        "query_prefix": profile.query_prefix,
        "passage_prefix": profile.passage_prefix,
        "max_tokens": str(profile.max_tokens),
        "dimension": str(profile.dimension),
        "schema": "1",
    }


@contextmanager
def _worker_errors() -> Iterator[None]:
    try:
        yield
    except DeadlinePassed as error:
        raise DeadlineExceeded(f"{error} Send fewer documents or a larger X-Deadline-Ms.") from error
    except WorkersOverloaded as error:
        raise Overloaded(str(error)) from error
    except WorkersClosed as error:
        raise Unavailable(str(error)) from error
