"""Builds the page of a replay: the front, the choice with its honest estimate, the winner as pipeline YAML. Pure."""

from collections.abc import Iterator
from typing import assert_never

import yaml

from evaluator.attribution.collect import leg_name, reranker_name
from evaluator.pages.page_blocks import Block, Caution, ChartImage, Heading, Listing, Prose, Sentence, Table, Verdict
from evaluator.pages.plotted_svg import LIGHT, WIDTH, logarithmic, plotted_svg, series_look
from evaluator.pages.step_page import ShownStep, StepPage
from evaluator.replay.report import REPLAY, ReplayReport
from evaluator.runs.latency import DOUBTFUL, Timed
from services.contracts.pipelines import Cut, Fuse, Pipeline, Rerank, Retrieve, SourceStage

FRONT_CHART = "replay/front.svg"
COSTS = (
    "Cost: the time of the stages, estimated from the times measured in the run; parallel legs count once, by the "
    "slowest. It orders pipelines; it is no promise of a latency."
)
HONEST = (
    "The tuned figure is of the queries that the choice was made on, so it is too high. The honest one is the mean "
    "over queries that were held out when their point was chosen (nested cross-validation)."
)


def replay_page(report: ReplayReport) -> StepPage:
    """Returns the page: the front with its chart, the choice with both estimates, the winner as a file."""
    blocks: list[Block] = [
        Sentence(
            f"{len(report.points)} pipelines on {report.queries} queries, from collected candidates; seed "
            f"{report.seed}. {report.metric} of each is exact; its cost is estimated."
        ),
        *map(Sentence, report.judgments.sentences()),
        *map(Caution, _doubts(report)),
    ]
    if report.checked and not any(one.otherwise for one in report.checked):
        same = f"The gateway gave the same hits for {len(report.checked)} of these pipelines, drawn by the seed."
        blocks.append(Sentence(same))
    blocks += [
        Heading("The front of quality against cost"),
        Prose(COSTS),
        ChartImage(FRONT_CHART, "Quality against cost"),
        Table("front", "The pipelines of the run, then those of the front, the cheapest first", front_rows(report)),
        Heading("The choice"),
        *_choice(report),
        Table("choice", f"{report.metric} of the choice, tuned and honest", choice_rows(report)),
        Prose(HONEST),
        Listing("yaml", "The chosen pipeline as a file of gateway/pipelines", winner_yaml(report)),
    ]
    return StepPage(
        "replay", f"Replay: {report.experiment}, {report.dataset}", blocks, {FRONT_CHART: front_chart(report)}
    )


REPLAY_STEP = ShownStep("replay", REPLAY, ReplayReport, page=replay_page, link="Replay of other settings")


def _doubts(report: ReplayReport) -> Iterator[str]:
    if report.times_valid is False:
        yield f"The times of the run are not valid, so costs are doubtful (marked {DOUBTFUL})."
    if report.times_valid is None:
        yield "Whether the times of the run are valid is not known: run `report`, then `replay` again."
    if report.caches:
        yield "The services were allowed to answer the run from their caches, so costs may be too low."
    if report.left_out:
        lost = len(report.left_out)
        counted = "1 pipeline is left out: it needs" if lost == 1 else f"{lost} pipelines are left out: they need"
        yield f"{counted} scores or legs that were not collected. The choice is among the rest."
    for one in report.checked:
        if one.otherwise:
            yield f"{in_words(one.pipeline)}: {len(one.otherwise)} of {one.queries} queries answered otherwise."


def _choice(report: ReplayReport) -> Iterator[Block]:
    choice = report.choice
    bound = "" if choice.within_ms is None else f" within {choice.within_ms:g} ms"
    yield Verdict(f"The best pipeline{bound}: {in_words(choice.pipeline)}.")
    if choice.within_ms is not None and (choice.cost_ms is None or choice.cost_ms > choice.within_ms):
        yield Caution(f"No pipeline is estimated within {choice.within_ms:g} ms; this is the cheapest.")
    for name, arm in report.better_arms():
        yield Caution(
            f"{name} of the run is better: {report.metric} {arm.mean:.4f}. It is left out (a leg shallower than the "
            "answers, or candidates that were not collected), or its answers were degraded."
        )


def front_rows(report: ReplayReport) -> list[list[str]]:
    """Returns the pipelines of the run, then those of the front."""
    rows = [["pipeline", report.metric, "cost ms"]]
    rows += [
        [f"{name} (run)", f"{arm.mean:.4f}", Timed(arm.cost_ms, report.times_valid).cell()]
        for name, arm in report.arms.items()
    ]
    for at in report.front:
        point = report.points[at]
        rows.append([in_words(point.pipeline), f"{point.mean:.4f}", Timed(point.cost_ms, report.times_valid).cell()])
    return rows


def choice_rows(report: ReplayReport) -> list[list[str]]:
    """Returns the figure on the queries that the choice was made on, then that of held-out queries."""
    choice = report.choice
    folds = ["–", "–"] if choice.honest is None else [str(choice.folds), str(choice.agreeing)]
    return [
        ["estimate", report.metric, "folds", "folds that chose it"],
        ["tuned, on the queries of the choice", f"{choice.tuned:.4f}", "–", "–"],
        ["honest, on held-out queries", _figure(choice.honest), *folds],
    ]


def winner_yaml(report: ReplayReport) -> str:
    """Returns the chosen pipeline as a file of gateway/pipelines."""
    choice = report.choice
    description = (
        f"Chosen by a replay over {report.dataset}: {report.metric} {_figure(choice.honest)} on held-out queries."
    )
    content = choice.pipeline.model_dump(mode="json", exclude_defaults=True)
    named = {"name": "replayed", "description": description, "stages": content["stages"]}
    return yaml.safe_dump(named, sort_keys=False, allow_unicode=True, width=100)


def in_words(pipeline: Pipeline) -> str:
    """Describes a pipeline in a line."""
    words = [_source_in_words(pipeline.identified.source.stage)]
    for one in pipeline.identified.later:
        match one.stage:
            case Rerank() as stage:
                weight = "" if stage.weight is None else f", weight {stage.weight:g}"
                words.append(f"{reranker_name(stage)} {stage.top}{weight}")
            case Cut() as stage:
                words.append(f"cut {stage.top}")
            case _:
                assert_never(one.stage)
    return " → ".join(words)


def _source_in_words(stage: SourceStage) -> str:
    match stage:
        case Retrieve():
            return f"{leg_name(stage)} {stage.top}"
        case Fuse():
            how = f"rrf k={stage.k}" if stage.method == "rrf" else stage.normalisation
            weights = "" if stage.weights is None else " " + "/".join(f"{weight:g}" for weight in stage.weights)
            return f"{how}{weights} of " + " + ".join(map(_input_in_words, stage.inputs))
        case _:
            assert_never(stage)


def _input_in_words(stage: SourceStage) -> str:
    words = _source_in_words(stage)
    return f"({words})" if isinstance(stage, Fuse) else words


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def front_chart(report: ReplayReport) -> str:
    """Draws every point, the front as a line, and the pipelines of the run by name."""
    points = [(one.cost_ms, one.mean) for one in report.points if one.cost_ms]
    arms = [(name, one.cost_ms, one.mean) for name, one in report.arms.items() if one.cost_ms]
    described = "; ".join(
        f"{Timed(cost, report.times_valid).cell()} ms {mean:.4f}" for cost, mean in _front_line(report)
    )
    costs = [cost for cost, _ in points] + [cost for _, cost, _ in arms]
    with plotted_svg(WIDTH, 4.6, f"{report.metric} against estimated cost", f"The front: {described}") as plot:
        axes = plot.axes
        axes.plot([cost for cost, _ in points], [mean for _, mean in points], ".", color=LIGHT["c5"], alpha=0.5)
        front = _front_line(report)
        axes.plot([cost for cost, _ in front], [mean for _, mean in front], color=LIGHT["c0"], label="the front")
        for number, (name, cost, mean) in enumerate(arms, start=1):
            axes.plot(cost, mean, label=name, **series_look(number) | {"linestyle": ""})
        if costs:
            logarithmic(axes.xaxis, min(costs) * 0.8, max(costs) * 1.25)
        doubt = f" ({DOUBTFUL}: the times are not valid)" if report.times_valid is False else ""
        untimed = "" if costs else "\nNo stage was timed, so no cost is known."
        axes.set_xlabel(f"estimated cost, ms{doubt}\nGrey: every pipeline that was replayed.{untimed}")
        axes.grid(axis="y")
        plot.legend()
    return plot.svg


def _front_line(report: ReplayReport) -> list[tuple[float, float]]:
    found = [report.points[at] for at in report.front]
    return [(one.cost_ms, one.mean) for one in found if one.cost_ms]
