"""Builds the page of a replay: what tuning gains, the choice with its honest estimate, the winner as YAML. Pure."""

from collections.abc import Iterator
from typing import assert_never

import yaml

from evaluator.attribution.collect import leg_name, reranker_name
from evaluator.pages.html_page import Page
from evaluator.pages.page_blocks import Block, Caution, Heading, Listing, Prose, Sentence, Table, Verdict
from evaluator.pages.step_page import ShownStep
from evaluator.replay.tuning_report import REPLAY, ReplayReport
from services.contracts.pipelines import Cut, Fuse, Pipeline, Rerank, Retrieve, SourceStage

ROUNDING = 1e-9  # of a mean of the same values
HONEST = (
    "The tuned figure uses the queries on which the settings were chosen, so it is too high. The honest figure is the "
    "mean over held-out queries (nested cross-validation)."
)


def replay_page(report: ReplayReport) -> Page:
    """Returns the page: each pipeline with its best settings, the choice with both estimates, the winner as a file."""
    blocks: list[Block] = [
        Sentence(
            f"{len(report.points)} pipelines on {report.queries} queries, from collected candidates; seed "
            f"{report.seed}. {report.metric} of each is exact."
        ),
        *map(Sentence, report.judgments.sentences()),
        *map(Caution, _doubts(report)),
        Heading("The pipelines of the run"),
        Table("tuned", "Each pipeline as it is, and with its best settings", tuned_rows(report)),
        Heading("The choice"),
        Verdict(f"The best pipeline: {in_words(report.choice.pipeline)}."),
        Table("choice", f"{report.metric} of the choice, tuned and honest", choice_rows(report)),
        Prose(HONEST),
        Listing("yaml", "The chosen pipeline as a file of gateway/pipelines", winner_yaml(report)),
    ]
    return Page(f"Replay: {report.experiment}, {report.dataset}", blocks, {})


REPLAY_STEP = ShownStep("replay", REPLAY, ReplayReport, page=replay_page, link="Replay of other settings")


def _doubts(report: ReplayReport) -> Iterator[str]:
    if report.left_out:
        lost = len(report.left_out)
        counted = "1 pipeline is left out: it needs" if lost == 1 else f"{lost} pipelines are left out: they need"
        yield f"{counted} scores or legs that were not collected. The choice is among the rest."
    for name, mean in report.arms.items():
        if mean > report.choice.tuned + ROUNDING:
            yield (
                f"{name} of the run is better than the choice. It is left out (a leg shallower than the answers, or "
                "candidates that were not collected), or its answers were degraded."
            )


def tuned_rows(report: ReplayReport) -> list[list[str]]:
    """Returns each pipeline of the run with the figure of its answers, and below it with its best settings."""
    rows = [["pipeline", report.metric]]
    for name, mean in report.arms.items():
        rows.append([f"{name} (run)", f"{mean:.4f}"])
        if (point := report.best_of(name)) is not None:
            rows.append([f"{name}: {in_words(point.pipeline)}", f"{point.mean:.4f}"])
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
    for later in pipeline.identified.later:
        match later.stage:
            case Rerank() as stage:
                weight = "" if stage.weight is None else f", weight {stage.weight:g}"
                words.append(f"{reranker_name(stage)} {stage.top}{weight}")
            case Cut() as stage:
                words.append(f"cut {stage.top}")
            case _:
                assert_never(later.stage)
    return " → ".join(words)


def _source_in_words(stage: SourceStage) -> str:
    match stage:
        case Retrieve():
            return f"{leg_name(stage)} {stage.top}"
        case Fuse():
            how = f"rrf k={stage.k}" if stage.method == "rrf" else stage.normalisation
            weights = "" if stage.weights is None else " " + "/".join(f"{weight:g}" for weight in stage.weights)
            return f"{how}{weights} of " + " + ".join(map(_input_in_words, stage.inputs))


def _input_in_words(stage: SourceStage) -> str:
    words = _source_in_words(stage)
    return f"({words})" if isinstance(stage, Fuse) else words


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
