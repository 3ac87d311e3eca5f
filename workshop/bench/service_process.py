"""Starts the service as a process on a free port, and calls it with a client cheaper than what it measures.

`python -m workshop.bench.service_process MODELS_FILE` is the service with another models.yaml than the repository's.
"""

import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types
from pydantic import ValidationError

from services.chassis.deadlines import DEADLINE_HEADER, MOST_MS
from services.chassis.server.serve import start
from services.contracts.rerank import ScoreAnswer
from services.inference.profiles import ROOT
from services.reranker.app import build_app
from services.reranker.settings import RerankerSettings
from workshop.bench.candidate_lists import CandidateList
from workshop.bench.contender import ANSWER_TIMEOUT_S, ContenderError, ContenderScores

HOST = "127.0.0.1"


class ServiceProcess:
    """Runs the service as a contender over HTTP: its CPU seconds, and wall seconds from request to last byte."""

    def __init__(self, models_file: Path, environment: Mapping[str, str], log: Path) -> None:
        """Starts the service and waits until it is ready. Raises ContenderError when it ends instead."""
        self._log = log
        with socket.socket() as held:
            held.bind((HOST, 0))
            port = int(held.getsockname()[1])
        with log.open("ab") as output:
            self._process = psutil.Popen(
                [sys.executable, "-m", "workshop.bench.service_process", str(models_file)],
                cwd=ROOT,
                env=os.environ | dict(environment) | {"RERANKER_PORT": str(port), "RERANKER_HOST": HOST},
                stdout=output,
                stderr=output,
            )
        self._connection = http.client.HTTPConnection(HOST, port, timeout=ANSWER_TIMEOUT_S)
        self.about = {"engine": "onnxruntime", "transport": "HTTP, one connection"}
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    @property
    def rss_bytes(self) -> int:
        """Resident memory of the service and all its child processes."""
        return sum(int(each.memory_info().rss) for each in (self._process, *self._process.children(recursive=True)))

    def score(self, lists: Sequence[CandidateList]) -> ContenderScores:
        """See Contender."""
        scores, cpu_s, wall_s = [], [], []
        # Reconnects off the clock: the service closes connections that were idle beyond its keep-alive.
        self._connection.close()
        self._connection.connect()
        for each in lists:
            body = json.dumps({"query": each.query, "passages": each.passages}).encode()
            cpu, wall = self._cpu_s(), time.perf_counter()
            answer = self._ask("POST", "/v1/score", body)
            wall_s.append(time.perf_counter() - wall)
            cpu_s.append(self._cpu_s() - cpu)
            scores.append(_scores(answer))
        return ContenderScores(scores=tuple(scores), cpu_s=tuple(cpu_s), wall_s=tuple(wall_s))

    def close(self) -> None:
        """Sends SIGTERM, and SIGKILL after 15 s."""
        self._connection.close()
        self._process.terminate()
        try:
            self._process.wait(15.0)
        except psutil.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait(self) -> None:
        ends_at = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            try:
                self._ask("GET", "/readyz", b"")
            except ContenderError as error:
                self._connection.close()
                if self._process.poll() is not None or time.monotonic() > ends_at:
                    raise ContenderError(f"The service was never ready; {self._log} says why.") from error
                time.sleep(0.1)
            else:
                return

    def _ask(self, method: str, path: str, body: bytes) -> bytes:
        headers = {"content-type": "application/json", DEADLINE_HEADER: str(MOST_MS)}
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise ContenderError(f"{method} {path} got no answer ({error}); {self._log} says why.") from error
        if answer.status != 200:
            raise ContenderError(f"{method} {path} was answered with {answer.status}: {content[:200]!r}.")
        return content

    def _cpu_s(self) -> float:
        used = self._process.cpu_times()
        return float(used.user + used.system)


def _scores(content: bytes) -> tuple[float, ...]:
    try:
        answer = ScoreAnswer.model_validate_json(content)
    except ValidationError as error:
        raise ContenderError(f"The service's answer is not a ScoreAnswer: {error}.") from error
    scores = tuple(score for score in answer.scores if score is not None)
    if len(scores) != len(answer.scores):
        raise ContenderError("The service left pairs unscored, though it was not asked for a part.")
    return scores


if __name__ == "__main__":
    start("reranker", RerankerSettings, lambda settings: build_app(settings, Path(sys.argv[1])))
