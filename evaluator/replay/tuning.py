"""Replays varied pipelines over the candidates of a run; writes replay.json, its page and the winner. Sends nothing."""

from evaluator.attribution.candidates import CANDIDATES, LINES, candidates_of
from evaluator.errors import EvaluationError, command_line
from evaluator.pages.step_page import write_page
from evaluator.progress import progress
from evaluator.replay.choice import QueryAnswers, measured
from evaluator.replay.points import varied_pipelines
from evaluator.replay.replayed import replayed
from evaluator.replay.tuning_page import replay_page, winner_yaml
from evaluator.replay.tuning_report import REPLAY, ReplayReport, tried_points
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.steps.run_judgments import judgments_as_measured
from services.files.disk_writes import write_whole


def replay_step(folder: RunFolder) -> ReplayReport:
    """Tries other settings of the run's pipelines.

    Raises EvaluationError where no candidates were collected, or no quality was measured.
    """
    collected, lines = candidates_of(folder)
    judgments, experiment = judgments_as_measured(folder), folder.experiment
    varied = varied_pipelines(collected.pipelines, collected.top)
    pipelines = [point.pipeline for point in varied]
    tried, own = [], []
    with progress("Replaying", collected.queries, "queries") as advance:
        for line in lines:
            tried.append(replayed(line, pipelines, collected.top))
            answers = [line.arms[name].hits[: collected.top] for name in collected.pipelines]
            own.append(QueryAnswers(line.query, answers, range(len(answers))))
            advance(1)
    metric = f"nDCG@{collected.top}"
    values = measured(tried, judgments.grades, len(varied), metric)
    own_means = measured(own, judgments.grades, len(collected.pipelines), metric).mean(axis=1).tolist()
    points, left_out, choice = tried_points(varied, values, experiment.seed)
    if choice is None:
        again = command_line("attribute", str(folder.path))
        raise EvaluationError(f"{folder.path}: no pipeline has candidates of all queries; run `{again}` again")
    report = ReplayReport(
        made_from=folder.hashes(CANDIDATES, LINES, "rank.json", "quality.json"),
        experiment=experiment.name,
        dataset=experiment.dataset_name,
        judgments=judgments.origin,
        metric=metric,
        seed=experiment.seed,
        queries=len(tried),
        arms=dict(zip(collected.pipelines, own_means, strict=True)),
        points=points,
        left_out=left_out,
        choice=choice,
    )
    folder.write(REPLAY, report)
    write_whole(writable(folder.path / "replay" / "replayed.yaml"), winner_yaml(report))
    write_page(folder, "replay", replay_page(report))
    return report
