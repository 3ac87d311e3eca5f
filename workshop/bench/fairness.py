"""`python -m workshop.bench.fairness`: measures how a large client slows a small one on a running service.

The small client sends 10 candidates a request. In every other spell a second client sends requests of 1,000 candidates
back to back. Each round gives the ratio of the small client's p95 with and without the large one, so that foreign load
affects both alike. Exit status 1 when the median ratio is above 2.
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


class ScoreClient:
    """Holds one connection to the service."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=MOST_MS / 1000)

    def score(self, body: bytes) -> float:
        """Returns seconds from request to last byte. Raises OSError without a service, ValueError when it refuses."""
        headers = {"content-type": "application/json", "cache-control": "no-store", DEADLINE_HEADER: str(MOST_MS)}
        started = time.perf_counter()
        self._connection.request("POST", "/v1/score", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        if answer.status != 200:
            raise ValueError(f"the service answered {answer.status}: {content[:200]!r}")
        return time.perf_counter() - started

    def close(self) -> None:
        """Closes the connection, from any thread; the service then drops the request in flight."""
        if self._connection.sock is not None:
            with suppress(OSError):  # the service has closed it already
                self._connection.sock.shutdown(socket.SHUT_RDWR)


class LargeClient:
    """Sends large requests back to back from a thread, within a `with`. `answered` counts them."""

    def __init__(self, url: str, bodies: Sequence[bytes]) -> None:
        self._client, self._bodies = ScoreClient(url), bodies
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.answered = 0
        self.failed: Exception | None = None

    def __enter__(self) -> "LargeClient":
        self._thread.start()
        time.sleep(1.0)  # until the request is tokenised and its micro-batches run
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


def request_bodies(count: int, candidates: int, mean_words: int, seed: int) -> list[bytes]:
    """Returns request bodies whose passages are runs of words of our collection, log-normal in length."""
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
    """Returns the nearest-rank 95th percentile."""
    return sorted(seconds)[-(-len(seconds) * 95 // 100) - 1]


def main() -> int:
    """Runs the rounds and prints the ratios; returns the exit status."""
    asked = _parsed()
    small = request_bodies(asked.requests, SMALL, asked.words, seed=1)
    large = request_bodies(3, LARGE, asked.words, seed=2)
    client = ScoreClient(asked.url)
    ratios: list[float] = []
    try:
        for number in range(1, asked.rounds + 1):
            alone = [client.score(body) for body in small]
            with LargeClient(asked.url, large):
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


class _FairnessArguments(argparse.Namespace):
    url: str
    rounds: int
    requests: int
    words: int


def _parsed() -> _FairnessArguments:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8003", help="a running re-ranker")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=40, help="of the small client, in each spell")
    parser.add_argument("--words", type=int, default=60, help="words of a passage, about")
    return parser.parse_args(namespace=_FairnessArguments())


if __name__ == "__main__":
    sys.exit(main())
