"""The readings of the machine's speed, by a process of its own on a real socket."""

import os

import pytest

from evaluator.errors import EvaluationError
from evaluator.load.calibration import WARMUP_S, calibrating, calibration_of, service_times_ms
from evaluator.load.calibration_stub import WORK
from evaluator.load.live import LiveFigures, listening
from evaluator.load.load_loop import Reply, SendRecord


def children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as file:
        return set(file.read().split())


async def test_the_same_stub_is_timed_before_and_after_and_is_gone_at_the_end() -> None:
    earlier = children()
    told: list[LiveFigures] = []
    async with calibrating(0.6, lambda: ()) as calibrate:
        with listening(told.append):
            before = await calibrate()
        after = await calibrate()
    assert children() <= earlier
    assert {(one.traffic, one.degraded, one.lost) for one in told} == {("calibration (stub, not your stack)", 0, 0)}
    found = calibration_of(before, after)
    assert found is not None
    assert found.work == WORK
    for reading in (found.before, found.after):
        # On a busy machine there are few.
        assert reading.service_ms.n > 0
        assert reading.service_ms.p50 is not None
        assert reading.service_ms.p50 > 0
        assert reading.conditions.seconds > WARMUP_S + 0.3


async def test_no_reading_is_taken_where_none_was_asked_for() -> None:
    earlier = children()
    async with calibrating(0, lambda: ()) as calibrate:
        assert children() <= earlier
        assert calibration_of(await calibrate(), await calibrate()) is None


def test_times_count_from_sending_and_the_warm_up_is_left_out() -> None:
    replied = Reply(200, b"")
    begun_s = WARMUP_S + 0.1
    records = [SendRecord(0, 0.0, 0.0, 0.9, replied), SendRecord(1, WARMUP_S, begun_s, begun_s + 0.002, replied)]
    assert service_times_ms(records) == [pytest.approx(2.0)]


@pytest.mark.parametrize("reply", [Reply(0, b"", "timeout"), Reply(500, b"")])
def test_a_reading_with_a_lost_answer_is_refused(reply: Reply) -> None:
    with pytest.raises(EvaluationError, match="did not answer every request"):
        service_times_ms([SendRecord(0, 1.0, 1.0, 2.0, reply)])
