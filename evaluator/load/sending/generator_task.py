"""Defines what a generator process receives and what it returns. Both are pickled, between processes of one program."""

import uuid
from dataclasses import dataclass, field

from evaluator.load.sending.load_loop import LoopKind, SendRecord

READY = b"ready\n"
# Files of a generator's folder.
TASK = "task.pickle"
RESULT = "result.pickle"


@dataclass(frozen=True, slots=True)
class GeneratorTask:
    """What a generator sends. Request n has the body `bodies[picks[n]]`; the closed loop begins again at their end."""

    loop: LoopKind
    url: str
    headers: dict[str, str]
    bodies: tuple[bytes, ...]
    picks: tuple[int, ...]
    planned_s: tuple[float, ...]  # open loop: of each of `picks`
    in_flight: int  # open loop: at most; closed loop: exactly
    seconds: float  # closed loop: how long
    timeout_s: float  # from sending to the last byte
    opens_gateway: bool = False  # the generator adds the key of its environment: no task holds one, as it is on disk
    name: str = field(default_factory=lambda: uuid.uuid4().hex)  # begins the X-Request-Id of its requests

    def request_id(self, number: int) -> str:
        """Returns the X-Request-Id of a request: by it the logs of the services find also those without an answer."""
        return f"{self.name}-{number}"


@dataclass(frozen=True, slots=True)
class GeneratorResult:
    """What a generator saw: its requests, and its CPU time within `seconds` on the clock."""

    records: list[SendRecord]
    cpu_s: float
    seconds: float
    real_time: bool  # whether it ran with real-time priority
