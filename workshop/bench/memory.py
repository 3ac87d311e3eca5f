"""`python -m workshop.bench.memory`: measures the service's resident memory after a burst and over random shapes.

Writes the figures into the bench's report under `memory`.
"""

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evaluator.progress import show
from services.inference.micro_batches import MAX_PADDED_TOKENS
from services.inference.model_tokenizer import ModelTokenizer
from services.inference.profiles import MODELS_FILE, ROOT, TOKENIZER, ModelError, load_cross_encoder
from services.reranker.settings import RerankerSettings
from workshop.bench.candidate_lists import BICYCLE_WORKSHOP, CandidateList, words_of
from workshop.bench.contender import ContenderError
from workshop.bench.contender_setup import service_environment
from workshop.bench.plain_model import write_models_file
from workshop.bench.report import (
    REPORT,
    BenchReport,
    MemoryFigures,
    ReportError,
    bench_environment,
    read_report,
    write_report,
)
from workshop.bench.service_process import ServiceProcess
from workshop.bench.table import memory_lines

QUARTER_S = 0.25
# Sent before the counted shapes, to fill what is filled once (kernels, buffers, Python's own pools).
WARM_UP_SHARE = 0.1
QUERY = "why does my chain slip"


class PairTexts:
    """Makes pairs of given numbers of tokens; no two passages are alike, so no cache can hit."""

    def __init__(self, tokenizer: Path, most: int) -> None:
        tokens = ModelTokenizer(tokenizer, most)
        words = words_of(BICYCLE_WORKSHOP / "corpus.jsonl")
        # Words of one token each: the number of words is the number of tokens.
        self._words = [word for word, ids in zip(words, tokens.ids(words), strict=True) if len(ids) == 1]
        self._around = len(tokens.pair(tokens.ids([QUERY])[0], []).ids)
        self._random = np.random.default_rng(0)

    def of(self, rows: int, tokens: int) -> CandidateList:
        """Returns `rows` pairs of `tokens` tokens each, query and special tokens included."""
        wanted = (rows, max(1, tokens - self._around))
        places = self._random.integers(0, len(self._words), size=wanted).tolist()
        return CandidateList(QUERY, tuple(" ".join(self._words[place] for place in row) for row in places))


@dataclass(frozen=True, slots=True)
class MemoryLoad:
    """Requests of the measurement, and for how long memory is sampled before and after."""

    most_tokens: int  # of a pair; each text of the burst has so many
    burst: int  # texts
    shapes: int
    within_s: float = 5.0


def measure_memory(service: ServiceProcess, served: str, texts: PairTexts, load: MemoryLoad) -> MemoryFigures:
    """Sends the burst, then the shapes, to a service that has answered one usual request. Raises ContenderError."""
    most, shapes = load.most_tokens, load.shapes
    service.score([texts.of(10, 100)])
    before = _least_rss(service, load.within_s)
    service.score([texts.of(load.burst, most)])
    after = tuple(_rss_samples(service, load.within_s))
    drawn = list(_shapes(shapes + round(shapes * WARM_UP_SHARE), most))
    for rows, tokens in drawn[shapes:]:
        service.score([texts.of(rows, tokens)])
    first = highest = _least_rss(service, load.within_s)
    for number, (rows, tokens) in enumerate(drawn[:shapes], 1):
        service.score([texts.of(rows, tokens)])
        highest = max(highest, service.rss_bytes)
        if number % 500 == 0:
            show(f"{number} of {shapes} shapes: {service.rss_bytes / 2**20:.1f} MiB")
    last = _least_rss(service, load.within_s)
    return MemoryFigures(
        served=served,
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


def _rss_samples(service: ServiceProcess, seconds: float) -> Iterator[int]:
    """Samples resident bytes every quarter of a second."""
    for _ in range(round(seconds / QUARTER_S)):
        time.sleep(QUARTER_S)
        yield service.rss_bytes


def _least_rss(service: ServiceProcess, seconds: float) -> int:
    """Returns the least resident bytes while the service is idle."""
    return min(_rss_samples(service, seconds))


def _shapes(count: int, most: int) -> Iterator[tuple[int, int]]:
    """Draws (rows, tokens) of single micro-batches: any length, then any number of rows that fit the cap."""
    random, cap = np.random.default_rng(1), RerankerSettings().max_batch_tokens or MAX_PADDED_TOKENS
    for tokens in random.integers(16, most, size=count, endpoint=True).tolist():
        yield int(random.integers(1, max(1, cap // tokens), endpoint=True)), tokens


def main() -> int:
    """Measures, writes the report and prints the figures; returns the exit status."""
    arguments = _parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that the service ends as well
    try:
        report = read_report(arguments.output) or BenchReport(made=bench_environment())
        profile = load_cross_encoder(MODELS_FILE, arguments.served)
        most = arguments.max_tokens or profile.max_tokens
        directory = ROOT / ".cache" / "bench-rerank"
        directory.mkdir(parents=True, exist_ok=True)
        listed = write_models_file(directory / "memory.yaml", profile.model_copy(update={"max_tokens": most}))
        service = ServiceProcess(listed, service_environment(arguments.served), directory / "contenders.log")
        try:
            texts = PairTexts(ROOT / ".models" / profile.name / TOKENIZER, most)
            memory = measure_memory(
                service, arguments.served, texts, MemoryLoad(most, arguments.burst, arguments.shapes)
            )
        finally:
            service.close()
    except (ContenderError, ModelError, ReportError) as error:
        sys.stderr.write(f"memory: {error}\n")
        return 1
    write_report(report.model_copy(update={"memory": memory}), arguments.output)
    show(memory_lines(memory))
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="memory", description=__doc__)
    parser.add_argument("--served", default=RerankerSettings().model, metavar="MODEL")
    parser.add_argument("--max-tokens", type=int, help="of a pair; default: the model's own")
    parser.add_argument("--burst", type=int, default=64, help="texts of --max-tokens tokens")
    parser.add_argument("--shapes", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=REPORT)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
