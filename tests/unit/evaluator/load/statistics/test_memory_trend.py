"""The slope of memory: over the later half, with an interval that holds although neighbouring readings are alike."""

import numpy as np
import pytest

from evaluator.load.statistics.memory_trend import BLOCKS, MemoryReading, memory_slope, memory_trends
from evaluator.machine.process_costs import MIB, STARTED_ANEW


def readings(memory: list[float | None], every_s: float = 10.0, anew: int | None = None) -> list[MemoryReading]:
    return [
        MemoryReading(
            seconds=number * every_s,
            memory_bytes={"dense": None if mib is None else round(mib * MIB)},
            started_anew=("dense",) if number == anew else (),
        )
        for number, mib in enumerate(memory)
    ]


def test_a_heap_that_fills_first_is_no_leak() -> None:
    trend = memory_trends(readings([100.0 + min(number, 150) for number in range(361)]))["dense"]
    assert (trend.first_bytes, trend.middle_bytes, trend.last_bytes) == (100 * MIB, 250 * MIB, 250 * MIB)
    assert trend.mib_an_hour == pytest.approx(0.0, abs=1e-6)
    assert (trend.readings, trend.seconds, trend.reason) == (361, 3_600.0, None)


def test_a_leak_has_its_slope_within_the_interval() -> None:
    dice = np.random.default_rng(1)
    trend = memory_trends(readings([100 + 20 * number / 360 + dice.normal(0, 0.5) for number in range(361)]))["dense"]
    assert trend.interval is not None
    low, high = trend.interval
    assert 17 < low < 20 < high < 23


def test_the_interval_of_a_level_memory_holds_zero_in_nineteen_of_twenty_cases() -> None:
    dice, held, cases = np.random.default_rng(7), 0, 80
    for _ in range(cases):
        level, memory = 0.0, []
        for _ in range(180):  # each reading is like the one before it
            level = 0.8 * level + dice.normal(0, 1)
            memory.append(100 + level)
        _, low, high = memory_slope([(10.0 * number, round(mib * MIB)) for number, mib in enumerate(memory)])
        held += low <= 0 <= high
    assert held >= 0.9 * cases


def test_a_process_that_was_started_anew_has_no_slope() -> None:
    trend = memory_trends(readings([100.0] * 361, anew=90))["dense"]
    assert (trend.mib_an_hour, trend.interval, trend.reason) == (None, None, STARTED_ANEW)
    assert trend.last_bytes == 100 * MIB


def test_a_load_too_short_for_a_slope_says_so() -> None:
    trend = memory_trends(readings([100.0, 101.0, 102.0, 103.0]))["dense"]
    assert trend.mib_an_hour is None
    assert trend.reason == f"a slope needs {BLOCKS} readings in the later half of the load; there were 2"
    assert trend.last_bytes == 103 * MIB


def test_readings_that_failed_are_left_out_and_a_process_that_never_told_has_the_reason() -> None:
    level: list[float | None] = [50.0] * 40
    level[3] = level[30] = None
    trend = memory_trends(readings(level))["dense"]
    assert (trend.readings, trend.mib_an_hour) == (38, 0.0)
    assert memory_trends(readings([None, None]))["dense"].reason == "its memory could not be read"
    assert memory_trends([]) == {}
