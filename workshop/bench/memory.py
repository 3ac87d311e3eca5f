"""`python -m workshop.bench.memory`: what the service keeps after a burst, and after thousands of shapes.

Resident memory of the real process, before and after; written into the report of the bench under `memory`.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from services.inference.profiles import MODELS_FILE, ROOT, TOKENIZER, ModelError, load_cross_encoder
from services.inference.tokens import Tokens
from services.reranker.settings import Settings
from workshop.bench.candidate_lists import WORKSHOP, CandidateList, words_of
from workshop.bench.contender import ContenderError
from workshop.bench.contender_setup import Served
from workshop.bench.plain_model import models_file
from workshop.bench.report import REPORT, Memory, Report, ReportError, made, read, write
from workshop.bench.service_process import Service
from workshop.bench.table import memory_lines

QUARTER_S = 0.25
# Before the count of shapes begins, so that what is filled once (kernels, buffers, Python's own pools) is full.
WARM_UP_SHARE = 0.1
QUERY = "why does my chain slip"


class Texts:
    """Pairs of given numbers of tokens, no two passages alike: a cache must not have seen them."""

    def __init__(self, tokenizer: Path, most: int) -> None:
        tokens = Tokens(tokenizer, most)
        words = words_of(WORKSHOP / "corpus.jsonl")
        # Words of one token each, so that so many words are so many tokens.
        self._words = [word for word, ids in zip(words, tokens.ids(words), strict=True) if len(ids) == 1]
        self._around = len(tokens.pair(tokens.ids([QUERY])[0], []).ids)
        self._random = np.random.default_rng(0)

    def of(self, rows: int, tokens: int) -> CandidateList:
        """`rows` pairs of `tokens` tokens each, query and special ones among them."""
        wanted = (rows, max(1, tokens - self._around))
        places = self._random.integers(0, len(self._words), size=wanted).tolist()
        return CandidateList(QUERY, tuple(" ".join(self._words[place] for place in row) for row in places))


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, and for how long memory is watched before and after it."""

    most_tokens: int  # of a pair; each text of the burst has so many
    burst: int  # texts
    shapes: int
    within_s: float = 5.0


def measure(service: Service, served: Served, texts: Texts, load: Load) -> Memory:
    """The burst, then the shapes, on a service that has answered one usual request. Raises ContenderError."""
    most, shapes = load.most_tokens, load.shapes
    service.score([texts.of(10, 100)])
    before = _settled(service, load.within_s)
    service.score([texts.of(load.burst, most)])
    after = tuple(_watched(service, load.within_s))
    drawn = list(_shapes(shapes + round(shapes * WARM_UP_SHARE), most))
    for rows, tokens in drawn[shapes:]:
        service.score([texts.of(rows, tokens)])
    first = highest = _settled(service, load.within_s)
    for number, (rows, tokens) in enumerate(drawn[:shapes], 1):
        service.score([texts.of(rows, tokens)])
        highest = max(highest, service.rss_bytes)
        if number % 500 == 0:
            _say(f"{number} of {shapes} shapes: {service.rss_bytes / 2**20:.1f} MiB")
    last = _settled(service, load.within_s)
    return Memory(
        served=served.name,
        max_tokens=most,
        burst_texts=load.burst,
        before=before,
        after_each_quarter_s=after,
        burst_ratio=min(after) / before,
        shapes=shapes,
        shapes_first=first,
        shapes_last=last,
        shapes_most=highest,
        growth=last / first - 1,
    )


def _watched(service: Service, seconds: float) -> Iterator[int]:
    """Resident bytes every quarter of a second."""
    for _ in range(round(seconds / QUARTER_S)):
        time.sleep(QUARTER_S)
        yield service.rss_bytes


def _settled(service: Service, seconds: float) -> int:
    """What memory comes down to while nothing is asked."""
    return min(_watched(service, seconds))


def _shapes(count: int, most: int) -> Iterator[tuple[int, int]]:
    """(rows, tokens) of single micro-batches: any length, then any number of rows that fit the cap."""
    random, cap = np.random.default_rng(1), Settings().max_batch_tokens
    for tokens in random.integers(16, most, size=count, endpoint=True).tolist():
        yield int(random.integers(1, max(1, cap // tokens), endpoint=True)), tokens


def main() -> int:
    """The exit status."""
    asked = _parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # who ends this process ends its service
    try:
        report = read(asked.output) or Report(made=made())
        profile = load_cross_encoder(MODELS_FILE, asked.served.model)
        most = asked.max_tokens or profile.max_tokens
        directory = ROOT / ".cache" / "bench-rerank"
        directory.mkdir(parents=True, exist_ok=True)
        listed = models_file(directory / "memory.yaml", profile.model_copy(update={"max_tokens": most}))
        service = Service(listed, asked.served.environment, directory / "contenders.log")
        try:
            texts = Texts(ROOT / ".models" / profile.name / TOKENIZER, most)
            memory = measure(service, asked.served, texts, Load(most, asked.burst, asked.shapes))
        finally:
            service.close()
    except (ContenderError, ModelError, ReportError) as error:
        sys.stderr.write(f"memory: {error}\n")
        return 1
    write(report.model_copy(update={"memory": memory}), asked.output)
    _say(memory_lines(memory))
    return 0


class _Asked(argparse.Namespace):
    served: Served
    max_tokens: int | None
    burst: int
    shapes: int
    output: Path


def _parsed(arguments: Sequence[str] | None = None) -> _Asked:
    settings = Settings()
    parser = argparse.ArgumentParser(prog="memory", description=__doc__)
    default = Served(settings.model, settings.engine)
    parser.add_argument("--served", type=Served.parse, default=default, metavar="MODEL[@ENGINE]")
    parser.add_argument("--max-tokens", type=int, help="of a pair; the model's own when not given")
    parser.add_argument("--burst", type=int, default=64, help="texts of so many tokens")
    parser.add_argument("--shapes", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=REPORT)
    return parser.parse_args(arguments, namespace=_Asked())


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
