"""Repeats idempotent calls of the gateway that found it busy or away. Callers decide what is idempotent."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from evaluator.client.client import GatewayError
from evaluator.errors import EvaluationError
from evaluator.progress import say
from retrieval_client.exchange import UNFINISHED

ATTEMPTS = 8
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]


async def with_retries(call: Callable[[], Awaitable[T]], command: str, sleep: Sleep = asyncio.sleep) -> T:
    """Retries with exponential backoff on 429, 502, 503, 504 and missing answers; other errors pass.

    Raises EvaluationError after ATTEMPTS, naming the `command` to run again.
    """
    pause = FIRST_PAUSE_S
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return await call()
        except GatewayError as error:
            if error.status not in UNFINISHED or error.kind in ("bad_answer", "untrusted"):
                raise
            if attempt == ATTEMPTS:
                raise EvaluationError(
                    f"given up after {ATTEMPTS} attempts: {error} (run {command} again to go on)"
                ) from error
            wait = max(pause, min(error.retry_after_s, LONGEST_PAUSE_S))
            say(f"{error} - attempt {attempt} of {ATTEMPTS}, next in {wait:.1f} s")
            await sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE_S)
    raise AssertionError("unreachable: the last attempt returns or raises")
