"""`python -m workshop.bench.fairness`: what a large client costs a small one, over HTTP, on a running service.

One client asks for 10 candidates at a time; in every other spell a second one sends requests of 1,000 candidates back
to back. The ratio of the small one's p95 with and without the large one, spell by spell, so that whatever else the
machine does meets both. Exit status 1 when the median of the ratios is above 2.
"""

import argparse
import http.client
import json
import random
import socket
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from services.chassis.deadlines import DEADLINE_HEADER, MOST_MS
from services.inference.profiles import ROOT
from workshop.bench.candidate_lists import words_of

CORPUS = ROOT / "evaluator" / "collections" / "bicycle-workshop" / "corpus.jsonl"
SMALL, LARGE = 10, 1_000
MOST_RATIO = 2.0


class Client:
    """One connection to the service. Raises OSError when the service is not there, ValueError when it refuses."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=MOST_MS / 1000)

    def score(self, body: bytes) -> float:
        """Seconds from the request to the last byte of the answer."""
        headers = {"content-type": "application/json", "cache-control": "no-store", DEADLINE_HEADER: str(MOST_MS)}
        started = time.perf_counter()
        self._connection.request("POST", "/v1/score", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise ValueError(f"the service answered {answer.status}: {content[:200]!r}")
        return time.perf_counter() - started

    def close(self) -> None:
        """Hangs up, from any thread; what it had asked for is dropped over there."""
        if self._connection.sock is not None:
            with suppress(OSError):  # hung up over there already
                self._connection.sock.shutdown(socket.SHUT_RDWR)


class Giant:
    """A client of its own thread that never pauses, within a `with`. `answered` counts its requests."""

    def __init__(self, url: str, bodies: Sequence[bytes]) -> None:
        self._client, self._bodies = Client(url), bodies
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.answered = 0
        self.failed: Exception | None = None

    def __enter__(self) -> "Giant":
        self._thread.start()
        time.sleep(1.0)  # until its tokens are made and its micro-batches run
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._client.close()
        self._thread.join(MOST_MS / 1000)
        if self.failed is not None:
            raise self.failed

    def _ask(self) -> None:
        while not self._leaving.is_set():
            try:
                self._client.score(self._bodies[self.answered % len(self._bodies)])
            except (OSError, ValueError, http.client.HTTPException) as error:
                if not self._leaving.is_set():
                    self.failed = error
                return
            self.answered += 1


def bodies(count: int, candidates: int, mean_words: int, seed: int) -> list[bytes]:
    """Requests over runs of words of our own collection, log-normal in length."""
    dice, words = random.Random(seed), words_of(CORPUS)

    def passage() -> str:
        length = max(3, round(dice.lognormvariate(0.0, 0.5) * mean_words))
        start = dice.randrange(len(words))
        return " ".join((words[start:] + words)[:length])

    return [
        json.dumps({"query": passage()[:60], "passages": [passage() for _ in range(candidates)]}).encode()
        for _ in range(count)
    ]


def p95(seconds: Sequence[float]) -> float:
    """The nearest-rank 95th percentile."""
    return sorted(seconds)[-(-len(seconds) * 95 // 100) - 1]


def main() -> int:
    """The exit status."""
    asked = _parsed()
    small = bodies(asked.requests, SMALL, asked.words, seed=1)
    large = bodies(3, LARGE, asked.words, seed=2)
    client = Client(asked.url)
    ratios: list[float] = []
    try:
        for number in range(1, asked.rounds + 1):
            alone = [client.score(body) for body in small]
            with Giant(asked.url, large):
                beside = [client.score(body) for body in small]
            ratios.append(p95(beside) / p95(alone))
            sys.stdout.write(
                f"round {number}: p95 alone {p95(alone) * 1000:.0f} ms, beside {p95(beside) * 1000:.0f} ms, "
                f"ratio {ratios[-1]:.2f}\n"
            )
    except (OSError, ValueError, http.client.HTTPException) as error:
        sys.stderr.write(f"fairness: {asked.url}: {error}\n")
        return 1
    finally:
        client.close()
    median = statistics.median(ratios)
    sys.stdout.write(f"ratio of p95: median {median:.2f}, {min(ratios):.2f} to {max(ratios):.2f}\n")
    return 1 if median > MOST_RATIO else 0


class _Asked(argparse.Namespace):
    url: str
    rounds: int
    requests: int
    words: int


def _parsed() -> _Asked:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8003", help="a running re-ranker")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=40, help="of the small client, in each spell")
    parser.add_argument("--words", type=int, default=60, help="words of a passage, about")
    return parser.parse_args(namespace=_Asked())


if __name__ == "__main__":
    sys.exit(main())
