"""Draws where mean latencies went, as stacked shares: a bar a row, a colour a stage; and lists them in rows. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.pages.svg_chart import COLOURS, Drawing, Scale, chart_number, text_width
from evaluator.runs.critical_path import GAP, INCLUDE, OTHER
from evaluator.runs.latency import DOUBTFUL, Timed
from services.contracts.pipelines import GATEWAY_WAIT

WIDTH = 860.0


@dataclass(frozen=True, slots=True)
class StackedTimes:
    """A bar: milliseconds by piece (critical_path.py), which add up to the mean latency. `group`: its title."""

    group: str
    name: str
    path_ms: Mapping[str, float]
    valid: bool


# What a chart of this kind and its table are called.
PATH = "Where the time goes: mean milliseconds by piece of the slowest path"
PIECES = ("piece", "mean ms", "share")


def piece_rows(bar: StackedTimes) -> Iterator[list[str]]:
    """Yields the pieces of a bar, under PIECES: milliseconds, marked where they are not valid, and share."""
    whole_ms = sum(bar.path_ms.values())
    for piece, ms in bar.path_ms.items():
        yield [piece, Timed(ms, bar.valid).cell(2), f"{ms / whole_ms:.1%}" if whole_ms else "–"]


def stacked_times_chart(title: str, bars: Sequence[StackedTimes]) -> str | None:
    """Draws the bars, those of a group below its title. None where no bar has a length."""
    rows = [one for one in bars if sum(one.path_ms.values()) > 0]
    if not rows:
        return None
    groups = {name: [one for one in rows if one.group == name] for name in dict.fromkeys(one.group for one in rows)}
    found_keys = list(dict.fromkeys(key for one in rows for key in one.path_ms))
    keys = sorted(found_keys, key=_no_stage)  # stages first, in the order of a query
    legend, legend_rows = _legend_places(keys)
    row, top = 24.0, 52.0
    height = top + sum(row * len(found) + (28 if name else 0) for name, found in groups.items()) + 20
    height += legend_rows * 22 + 26
    described = "; ".join(f"{_bar_words(one)}: {_path_words(one)}" for one in rows)
    drawing = Drawing(WIDTH, height, title, described)
    fills = _fills(keys)
    widest = max(text_width(one.name) for one in rows)
    x = Scale(0.0, 1.0, max(110.0, 24 + widest), WIDTH - 130)
    y = top
    for name, found in groups.items():
        if name:
            drawing.text(16, y + 14, name)
            y += 22
        for one in found:
            _bar(drawing, one, x, y, row - 5, fills)
            y += row
        y += 6 if name else 0
    y += 14
    for key, (column, line) in zip(keys, legend, strict=True):
        fill, opacity = fills[key]
        drawing.rectangle(column, y + line * 22, 12, 12, fill, opacity)
        drawing.text(column + 18, y + line * 22 + 10, key)
    note = "Of parallel inputs only the slowest counts; a stage's own name is its rest. gap: network, event loops."
    if not all(one.valid for one in rows):
        note += f" {DOUBTFUL}: times not valid."
    drawing.text(16, height - 12, note, "soft")
    return drawing.svg()


def _bar(
    drawing: Drawing,
    bar: StackedTimes,
    x: Scale,
    y: float,
    height: float,
    fills: Mapping[str, tuple[str, float]],
) -> None:
    whole_ms, done = sum(bar.path_ms.values()), 0.0
    drawing.text(x.start - 8, y + height - 5, bar.name, "soft", "end")
    for key, ms in bar.path_ms.items():
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
    mark = "" if bar.valid else f" {DOUBTFUL}"
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


def _bar_words(bar: StackedTimes) -> str:
    return f"{bar.group} at {bar.name}" if bar.group else bar.name


def _path_words(bar: StackedTimes) -> str:
    return ", ".join(f"{key} {Timed(ms, bar.valid).cell()} ms" for key, ms in bar.path_ms.items())
