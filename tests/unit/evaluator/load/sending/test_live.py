"""What a load tells while it runs."""

import asyncio
import os
from collections import Counter

import pytest

from evaluator.load.sending.live import (
    LEAST_MS,
    LONGEST_LINE,
    GeneratorCounts,
    LiveFigures,
    LiveLoad,
    class_percentile,
    latency_class,
    listening,
    read_counts,
    write_counts,
)
from evaluator.load.sending.load_loop import Reply, SendRecord
from services.contracts.query import Degradation, PipelineRef, SearchAnswer
from tests.support.virtual_time import VirtualClock, in_virtual_time


def counts(
    planned: int = 20, in_flight: int = 3, degraded: int = 0, lost: int = 0, ms: float = 10.0
) -> GeneratorCounts:
    return GeneratorCounts(planned, in_flight, degraded, lost, {latency_class(ms): planned - lost})


def body(*degraded: Degradation) -> bytes:
    answer = SearchAnswer(
        collection="shop@1",
        pipeline=PipelineRef(name="bm25", fingerprint="0"),
        request_id="r",
        hits=(),
        degraded=degraded,
        timings_ms={"total": 1.0},
    )
    return answer.model_dump_json(exclude_none=True).encode()


def test_the_last_ten_seconds_of_all_generators_are_summed_up() -> None:
    heard: list[LiveFigures] = []
    with listening(heard.append):
        live = LiveLoad("bm25 at 40/s", 2)
        for second in range(15):
            live.add_counts(0, counts(ms=10.0, lost=second == 0))
            live.add_counts(1, counts(ms=1_000.0, degraded=2))
    assert len(heard) == 15
    assert heard[0].lost == 1
    last = heard[-1]
    assert (last.seconds, last.rate, last.in_flight, last.degraded, last.lost) == (15, 40, 6, 20, 0)
    assert last.p50_ms == pytest.approx(10, rel=0.06)
    assert last.p99_ms == pytest.approx(1_000, rel=0.06)
    assert last.line.startswith("bm25 at 40/s: 40.0/s, 6 in flight, p50 10 ms, p99 ")
    assert "ms of the answers, 20 degraded" in last.line


def test_a_load_that_nobody_listens_to_tells_nobody() -> None:
    LiveLoad("bm25", 1).add_counts(0, counts())


@pytest.mark.parametrize("ms", [0.0, LEAST_MS, 1.0, 250.0, 12_000.0])
def test_a_percentile_is_told_within_five_percent(ms: float) -> None:
    told = class_percentile(Counter([latency_class(ms)]), 0.99)
    assert told is not None
    assert max(ms, LEAST_MS) <= told * 1.000001
    assert told <= max(ms, LEAST_MS) * 1.06
    assert class_percentile(Counter(), 0.5) is None


def test_a_second_with_answers_of_all_classes_fits_into_a_line() -> None:
    full = GeneratorCounts(900, 2_000, 99, 99, {latency_class(1.06**power / 10): 3 for power in range(240)})
    assert len(full.line) <= LONGEST_LINE
    assert read_counts(full.line) == full


def test_a_generator_tells_degraded_and_lost_answers_each_second() -> None:
    late = Degradation(stage="rerank", reason="timeout", detail="late", done=0, of=10)
    replies = [Reply(200, body()), Reply(200, body(late)), Reply(503, b"{}"), Reply(0, b"", "timeout"), None]
    records = [SendRecord(number, 0.0, 0.0, 0.02, reply) for number, reply in enumerate(replies)]
    read, write = os.pipe()

    async def telling() -> None:
        task = asyncio.create_task(write_counts(records, lambda now_s, done: (7, 7 - done), VirtualClock(), write))
        await asyncio.sleep(1.5)
        task.cancel()

    in_virtual_time(telling())
    os.set_blocking(read, False)
    told = read_counts(os.read(read, LONGEST_LINE))
    assert told == GeneratorCounts(7, 2, 1, 3, {latency_class(20.0): 2})


def test_a_pipe_that_nobody_reads_delays_nothing() -> None:
    read, write = os.pipe()

    async def telling() -> float:
        clock = VirtualClock()
        task = asyncio.create_task(write_counts([], lambda now_s, done: (0, 0), clock, write))
        await asyncio.sleep(5_000.5)
        task.cancel()
        return clock.now()

    assert in_virtual_time(telling()) == pytest.approx(5_000.5)
    os.close(read)
    os.close(write)
