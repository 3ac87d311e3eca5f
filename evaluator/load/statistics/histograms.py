"""Counts milliseconds in HDR histograms: 1 µs to 1 h, three digits; writes and reads `.hlog` files.

Histograms are merged, never averaged.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # ships no types
from hdrh.log import HistogramLogReader, HistogramLogWriter  # type: ignore[import-untyped]

from services.files.disk_writes import whole_file

LEAST_US = 1
MOST_US = 3_600_000_000
DIGITS = 3
# The span of one line of a .hlog file. It is short enough to see a stall; each line costs a few hundred bytes.
INTERVAL_S = 1.0


def new_histogram() -> HdrHistogram:
    """Returns an empty histogram."""
    return HdrHistogram(LEAST_US, MOST_US, DIGITS)


def histogram_of(values_ms: Iterable[float]) -> HdrHistogram:
    """Returns a histogram of these values. Values outside its range count as its bounds."""
    histogram = new_histogram()
    for value_ms in values_ms:
        histogram.record_value(min(MOST_US, max(LEAST_US, round(value_ms * 1000))))
    return histogram


def percentiles_ms(histogram: HdrHistogram, percents: Sequence[float]) -> list[float]:
    """Returns the greatest values, to three digits, that equal those of these percentiles; reads the counts once."""
    found = histogram.get_percentile_to_value_dict(percents)
    return [float(found[percent]) / 1000 for percent in percents]


def write_hlog(path: Path, began: datetime, timed: Sequence[tuple[float, float]]) -> None:
    """Writes a histogram a second. `timed`: pairs of seconds since the beginning and milliseconds."""
    with whole_file(path) as file:
        writer = HistogramLogWriter(file)
        writer.output_log_format_version()
        writer.output_comment("[Unit of values: microseconds]")
        # `output_start_time` of 0.10.8 calls a method that datetime does not have.
        file.write(f"#[StartTime: {began.timestamp():f} (seconds since epoch), {began.astimezone(UTC).isoformat()}]\n")
        writer.output_legend()
        intervals: dict[int, list[float]] = {}
        for at_s, value_ms in timed:
            intervals.setdefault(int(at_s // INTERVAL_S), []).append(value_ms)
        for number in sorted(intervals):
            start_s = number * INTERVAL_S
            # The writer takes 0 for "not given", and then a time of the histogram itself, which is 0 too.
            writer.output_interval_histogram(histogram_of(intervals[number]), start_s, start_s + INTERVAL_S)


def read_hlog(path: Path) -> HdrHistogram:
    """Returns all intervals of a file, merged."""
    merged = new_histogram()
    reader = HistogramLogReader(str(path), merged)
    try:
        while reader.add_next_interval_histogram() is not None:
            pass
    finally:
        reader.close()
    return merged
