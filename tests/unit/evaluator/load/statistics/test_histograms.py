import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evaluator.load.points.figures import histogram_of, load_percentiles, percentiles_ms, read_hlog, write_hlog
from evaluator.load.points.point_report import on_one_clock
from evaluator.load.sending.driven_traffic import TimeSlice
from evaluator.load.sending.drives import LoadedPoint
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.runs.latency import percentile
from evaluator.runs.order_statistics import percentile_interval
from tests.support.load_points import CLEAN
from tests.support.load_samples import load_sample

BEGAN = datetime(2026, 11, 23, tzinfo=UTC)


def samples(count: int) -> list[float]:
    dice = random.Random(1)
    return [dice.lognormvariate(2, 1) for _ in range(count)]


def test_a_percentile_has_three_digits_of_the_nearest_rank() -> None:
    values = samples(8_000)
    histogram, ordered = histogram_of(values), sorted(values)
    for percent, share in ((50.0, 0.5), (90.0, 0.9), (95.0, 0.95), (99.0, 0.99), (99.9, 0.999)):
        assert percentiles_ms(histogram, [percent])[0] == pytest.approx(percentile(ordered, share), rel=1e-3)


def test_values_outside_the_range_count_as_its_bounds() -> None:
    histogram = histogram_of([0.0, 5_000_000.0])
    assert histogram.get_total_count() == 2
    assert percentiles_ms(histogram, [100])[0] == pytest.approx(3_600_000, rel=1e-3)


def test_a_log_read_back_and_merged_has_the_percentiles_of_all_values(tmp_path: Path) -> None:
    values = samples(500)
    path = tmp_path / "bm25-20.hlog"
    write_hlog(path, BEGAN, [(number / 50, value) for number, value in enumerate(values)])
    lines = path.read_text().splitlines()
    assert lines[2] == "#[StartTime: 1795392000.000000 (seconds since epoch), 2026-11-23T00:00:00+00:00]"
    assert len(lines) == 4 + 10
    merged = read_hlog(path)
    assert merged.get_total_count() == 500
    assert percentiles_ms(merged, [95, 50]) == percentiles_ms(histogram_of(values), [95, 50])


def test_slices_are_apart_as_the_monotonic_clock_has_it_where_the_wall_clock_was_set_back() -> None:
    conditions = MachineConditions.model_validate(CLEAN)
    slices = [
        TimeSlice("20/s", "bm25", LoadedPoint((load_sample(),), conditions, (), True, began, 1.0, began_s=at_s), 0, 0)
        for began, at_s in ((BEGAN, 500.0), (BEGAN - timedelta(hours=1), 560.0))
    ]
    assert [at_s for at_s, _ in on_one_clock(slices)] == [0.0, 60.0]


@pytest.mark.parametrize(
    ("count", "p99", "p99_9"), [(661, False, False), (662, True, False), (6_999, True, False), (7_000, True, True)]
)
def test_a_tail_is_told_only_from_enough_samples(count: int, p99: bool, p99_9: bool) -> None:
    found = load_percentiles(samples(count))
    assert (found.p99.unchecked_ms is not None, found.p99_9.unchecked_ms is not None) == (p99, p99_9)
    assert found.n == count
    assert found.without_tail().p99.unchecked_ms is None
    assert found.without_tail().p50 == found.p50


def test_at_most_one_request_in_a_hundred_exceeds_p99() -> None:
    values = [float(number) for number in range(1, 663)]
    assert load_percentiles(values).p99.unchecked_ms == 656.0
    assert sum(value > 656 for value in values) / 662 <= 0.01


def test_no_percentile_is_longer_than_the_longest_time() -> None:
    figures = load_percentiles([10_000.0] * 700)
    assert figures.p99.unchecked_ms == figures.max.unchecked_ms == 10_000.0


def test_the_interval_of_a_percentile_holds_it_in_95_of_100_draws() -> None:
    dice = random.Random(7)
    inside = 0
    for _ in range(400):
        interval = percentile_interval(sorted(dice.random() for _ in range(200)), 0.9)
        assert interval is not None
        inside += interval[0] <= 0.9 <= interval[1]
    assert 0.93 <= inside / 400 <= 0.99


def test_there_is_no_interval_where_no_sample_is_far_enough_out() -> None:
    assert percentile_interval(sorted(samples(20)), 0.99) is None
