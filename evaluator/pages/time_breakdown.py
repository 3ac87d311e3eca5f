"""Shows where latencies went: stages, the slowest answers, and the mean as stacked shares, one bar per row. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.pages.plotted_svg import COLOURS, LIGHT, WIDTH, chart_number, plotted_svg
from evaluator.runs.breakdown import GAP, INCLUDE, OTHER, SlowAnswer, StageTime
from evaluator.runs.latency import DOUBTFUL, Timed
from services.contracts.pipelines import GATEWAY_WAIT

BAR_INCHES = 0.42
LABELLED = 0.1  # the least share whose figure fits its piece
SHADES = (1.0, 0.72, 0.5, 0.34)  # of a stage and its parts
NOTE = "Of parallel inputs only the slowest counts. A stage\nalone: the rest of its time. gap: network, event loops."


@dataclass(frozen=True, slots=True)
class StackedTimes:
    """A bar: milliseconds by piece (runs/breakdown.py), which add up to the mean latency. `group`: its title."""

    group: str
    name: str
    path_ms: Mapping[str, float]
    valid: bool

    @property
    def label(self) -> str:
        return f"{self.group} at {self.name}" if self.group else self.name

    @property
    def whole_ms(self) -> float:
        """The mean latency."""
        return sum(self.path_ms.values())


# The titles of such a chart, and of the columns of its table.
PATH = "Where the time goes: mean milliseconds by piece of the slowest path"
PIECES = ("piece", "mean ms", "share")
STAGES = ("stage", "p50", "p95", "share", "answers")
SLOWEST = ("query", "ms", "stages", "request_id")


def stage_rows(stages: Mapping[str, StageTime], gap: StageTime | None) -> Iterator[list[str]]:
    """Yields the times of each stage and its parts under STAGES, in milliseconds, with the gap at the end."""
    for stage, time in (*stages.items(), *([("(gap)", gap)] if gap is not None else [])):
        share = "–" if time.share is None else f"{time.share:z.1%}"
        yield [stage, time.p50.cell(2), time.p95.cell(2), share, str(time.n)]


def slowest_rows(answers: Iterable[SlowAnswer]) -> Iterator[list[str]]:
    """Yields answers with the times of their stages, under SLOWEST."""
    for answer in answers:
        stages = ", ".join(f"{stage} {time.cell()}" for stage, time in answer.timings_ms.items())
        yield [answer.query, answer.latency_ms.cell(), stages, answer.request_id or "–"]


def piece_rows(bar: StackedTimes) -> Iterator[list[str]]:
    """Yields the pieces of a bar, under PIECES: milliseconds, marked where they are not valid, and share."""
    for piece, ms in bar.path_ms.items():
        yield [piece, Timed(ms, bar.valid).cell(2), f"{ms / bar.whole_ms:.1%}" if bar.whole_ms else "–"]


def stacked_times_chart(title: str, bars: Sequence[StackedTimes]) -> str | None:
    """Draws the bars below one another. None where no bar has a length."""
    bars = [bar for bar in bars if bar.whole_ms > 0]
    if not bars:
        return None
    # Stages first, in the order of a query.
    pieces = sorted(dict.fromkeys(piece for bar in bars for piece in bar.path_ms), key=_no_stage)
    fills = _fills(pieces)
    described = "; ".join(f"{bar.label}: {_path_words(bar)}" for bar in bars)
    height = 1.3 + BAR_INCHES * len(bars) + 0.1 * len(pieces)
    with plotted_svg(WIDTH, height, title, described) as plot:
        axes, named = plot.axes, set[str]()
        for row, bar in enumerate(bars):
            done = 0.0
            for piece, ms in bar.path_ms.items():
                share, (colour, opacity) = ms / bar.whole_ms, fills[piece]
                axes.barh(
                    row, share, 0.5, done, color=colour, alpha=opacity, edgecolor=LIGHT["paper"],
                    label=None if piece in named else piece,
                )  # fmt: skip
                named.add(piece)
                if share >= LABELLED:
                    axes.text(done + share / 2, row, f"{share:.0%}", ha="center", va="center")
                done += share
            mark = "" if bar.valid else f" {DOUBTFUL}"
            axes.text(0.0, row - 0.3, bar.label, va="bottom")
            axes.text(1.0, row - 0.3, f"{chart_number(bar.whole_ms)} ms{mark}", va="bottom", ha="right")
        axes.set(xlim=(0.0, 1.0), ylim=(len(bars) - 0.6, -0.8), xticks=(), yticks=())
        axes.spines[:].set_visible(False)
        doubts = "" if all(bar.valid for bar in bars) else f"\n{DOUBTFUL}: times that do not hold."
        axes.set_xlabel(NOTE + doubts)
        plot.legend()
    return plot.svg


def _fills(pieces: Sequence[str]) -> dict[str, tuple[str, float]]:
    """Returns colour and opacity of every piece: a colour per stage, a shade per part of it; grey for all else."""
    grey = COLOURS - 1
    stages = list(dict.fromkeys(_stage(piece, pieces) for piece in pieces if not _no_stage(piece)))
    fills: dict[str, tuple[str, float]] = {}
    for piece in pieces:
        number = grey if _no_stage(piece) else stages.index(_stage(piece, pieces)) % grey
        colour = LIGHT[f"b{number}"]
        shade = sum(other == colour for other, _ in fills.values())
        fills[piece] = colour, SHADES[shade % len(SHADES)]
    return fills


def _stage(piece: str, pieces: Sequence[str]) -> str:
    stage = piece.rpartition(".")[0]
    return stage if stage in pieces else piece


def _no_stage(piece: str) -> bool:
    return piece in (GATEWAY_WAIT, OTHER, GAP, INCLUDE)


def _path_words(bar: StackedTimes) -> str:
    return ", ".join(f"{piece} {Timed(ms, bar.valid).cell()} ms" for piece, ms in bar.path_ms.items())
