"""Draws where the mean latency of every point of a load went, as stacked shares. Pure."""

from collections.abc import Mapping, Sequence

from evaluator.critical_path import GAP, INCLUDE, OTHER
from evaluator.load.report import LoadPointReport, LoadReport
from evaluator.svg_chart import COLOURS, DOUBTFUL, Drawing, Scale, chart_number, text_width
from services.contracts.pipelines import GATEWAY_WAIT

WIDTH = 860.0


def stages_chart(report: LoadReport) -> str | None:
    """Draws for each point where the mean latency went, as shares of it. None where no answer reports its times."""
    rows = [point for point in report.points if sum(point.path_ms.values()) > 0]
    if not rows:
        return None
    groups = {
        name: [one for one in rows if one.pipeline == name] for name in dict.fromkeys(one.pipeline for one in rows)
    }
    found_keys = list(dict.fromkeys(key for point in rows for key in point.path_ms))
    keys = sorted(found_keys, key=_no_stage)  # stages first, in the order of a query
    legend, legend_rows = _legend_places(keys)
    row, top = 24.0, 52.0
    height = top + sum(row * len(found) + 28 for found in groups.values()) + 20 + legend_rows * 22 + 26
    drawing = Drawing(
        WIDTH,
        height,
        "Where the time goes: shares of the mean latency",
        "; ".join(f"{point.pipeline} at {point.traffic_in_words}: {_path_words(point)}" for point in rows),
    )
    fills = _fills(keys)
    widest = max(text_width(point.traffic_in_words) for point in rows)
    x = Scale(0.0, 1.0, max(110.0, 24 + widest), WIDTH - 130)
    y = top
    for name, found in groups.items():
        drawing.text(16, y + 14, name)
        y += 22
        for point in found:
            _stage_row(drawing, point, x, y, row - 5, fills)
            y += row
        y += 6
    y += 14
    for key, (column, line) in zip(keys, legend, strict=True):
        fill, opacity = fills[key]
        drawing.rectangle(column, y + line * 22, 12, 12, fill, opacity)
        drawing.text(column + 18, y + line * 22 + 10, key)
    note = "Of parallel inputs only the slowest counts; a stage's own name is its rest. gap: network, event loops."
    if not all(point.timing_valid for point in rows):
        note += f" {DOUBTFUL}: times not valid."
    drawing.text(16, height - 12, note, "soft")
    return drawing.svg()


def _stage_row(
    drawing: Drawing,
    point: LoadPointReport,
    x: Scale,
    y: float,
    height: float,
    fills: Mapping[str, tuple[str, float]],
) -> None:
    whole_ms, done = sum(point.path_ms.values()), 0.0
    drawing.text(x.start - 8, y + height - 5, point.traffic_in_words, "soft", "end")
    for key, ms in point.path_ms.items():
        start, end = x.at(done / whole_ms), x.at((done + ms) / whole_ms)
        done += ms
        if end - start < 0.5:
            continue
        fill, opacity = fills[key]
        drawing.rectangle(start, y, end - start, height, f"{fill} part", opacity)
        for label in (f"{key} {ms / whole_ms:.0%}", key, f"{ms / whole_ms:.0%}"):
            if text_width(label) + 8 < end - start:
                drawing.text((start + end) / 2, y + height - 5, label, "", "middle")
                break
    mark = "" if point.timing_valid else f" {DOUBTFUL}"
    drawing.text(x.end + 8, y + height - 5, f"{chart_number(whole_ms)} ms{mark}")


def _fills(keys: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Returns the fill of every piece: a colour a stage, a shade of it a part; grey for what is no stage."""
    grey, shades = COLOURS - 1, (1.0, 0.72, 0.5, 0.34)
    stages = list(dict.fromkeys(_stage(key, keys) for key in keys if not _no_stage(key)))
    of_stage: dict[str, list[str]] = {}
    for key in keys:
        of_stage.setdefault("" if _no_stage(key) else _stage(key, keys), []).append(key)
    return {
        key: (
            f"b{stages.index(stage) % grey if stage else grey}",
            shades[members.index(key) % len(shades)],
        )
        for stage, members in of_stage.items()
        for key in members
    }


def _stage(key: str, keys: Sequence[str]) -> str:
    stage = key.rpartition(".")[0]
    return stage if stage in keys else key


def _no_stage(key: str) -> bool:
    return key in (GATEWAY_WAIT, OTHER, GAP, INCLUDE)


def _legend_places(keys: Sequence[str]) -> tuple[list[tuple[float, int]], int]:
    """Returns where each entry stands (x, row) from left to right, and the number of rows."""
    places, x, row = [], 16.0, 0
    for key in keys:
        wide = text_width(key) + 36
        if x + wide > WIDTH - 16 and x > 16:
            x, row = 16.0, row + 1
        places.append((x, row))
        x += wide
    return places, row + 1


def _path_words(point: LoadPointReport) -> str:
    return ", ".join(f"{key} {ms:.1f} ms" for key, ms in point.path_ms.items())
