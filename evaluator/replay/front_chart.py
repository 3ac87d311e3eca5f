"""Draws what was replayed: quality against estimated cost, with the front. Pure."""

from evaluator.pages.svg_chart import Drawing, Scale, chart_number
from evaluator.replay.report import ReplayReport
from evaluator.runs.latency import DOUBTFUL, Timed

WIDTH, HEIGHT = 860.0, 460.0


def front_chart(report: ReplayReport) -> str:
    """Draws every point, the front as a line, and the pipelines of the run by name."""
    points = [(one.cost_ms, one.mean) for one in report.points if one.cost_ms]
    arms = [(name, one.cost_ms, one.mean) for name, one in report.arms.items() if one.cost_ms]
    described = "; ".join(
        f"{Timed(cost, report.times_valid).cell()} ms {mean:.4f}" for cost, mean in _front_line(report)
    )
    drawing = Drawing(WIDTH, HEIGHT, f"{report.metric} against estimated cost", f"The front: {described}")
    costs = [cost for cost, _ in points] + [cost for _, cost, _ in arms]
    means = [mean for _, mean in points] + [mean for _, _, mean in arms]
    if not costs:
        drawing.text(16, 60, "No stage was timed, so no cost is known.")
        return drawing.svg()
    x = Scale(min(costs) * 0.8, max(costs) * 1.25, 70, WIDTH - 30, logarithmic=True)
    margin = max(0.005, (max(means) - min(means)) * 0.05)
    y = Scale(min(means) - margin, max(means) + margin, HEIGHT - 64, 50)
    drawing.vertical_axis(y, 70, WIDTH - 30, [(tick, f"{tick:.2f}") for tick in y.ticks()])
    doubt = f" ({DOUBTFUL}: the times are not valid)" if report.times_valid is False else ""
    ticks = [(tick, chart_number(tick)) for tick in x.ticks()]
    drawing.horizontal_axis(x, HEIGHT - 64, ticks, f"estimated cost, ms{doubt}")
    for cost, mean in points:
        drawing.dot(5, x.at(cost), y.at(mean))
    drawing.line([(x.at(cost), y.at(mean)) for cost, mean in _front_line(report)], "line c0")
    for number, (name, cost, mean) in enumerate(arms, start=1):
        drawing.mark(number, x.at(cost), y.at(mean))
        at_right = x.at(cost) > WIDTH - 160
        drawing.text(
            x.at(cost) + (-10 if at_right else 10), y.at(mean) + 4, name, anchor="end" if at_right else "start"
        )
    drawing.text(
        16, HEIGHT - 8, "Grey: every pipeline that was replayed. Line: the front. Marks: pipelines of the run.", "soft"
    )
    return drawing.svg()


def _front_line(report: ReplayReport) -> list[tuple[float, float]]:
    found = [report.points[at] for at in report.front]
    return [(one.cost_ms, one.mean) for one in found if one.cost_ms]
