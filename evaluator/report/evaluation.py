"""Runs the steps of an evaluation, each from the files of the step before, for command line and service."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evaluator.attribution.attributing import attribution
from evaluator.attribution.attribution_report import ATTRIBUTION
from evaluator.client.client import GatewayClient
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.load.load_step import load_step
from evaluator.machine.machine_conditions import MachineCounters
from evaluator.machine.process_costs import NO_PROCESSES, costs_between, process_reader
from evaluator.metrics.quality import means, within_depth
from evaluator.progress import in_thread, say
from evaluator.report.report_step import report_step
from evaluator.report.run_report import Report
from evaluator.runs.answers import read_answers
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.runs.trec_runs import read_run
from evaluator.steps.ingest import IngestReport, ingest
from evaluator.steps.pipeline_costs import COSTS, pipeline_costs
from evaluator.steps.prepared_run import dataset_of, prepare_run
from evaluator.steps.quality_figures import (
    CHANGE_METRICS,
    JudgmentChange,
    QualityReport,
    QueryFigures,
    arm_answers,
    measure_answers,
    quality_figures,
)
from evaluator.steps.rank import RankedArm, RankReport, begin_ranking, rank, write_rank_report
from evaluator.steps.run_judgments import judgments_of, judgments_with_added
from evaluator.steps.vector_recall import vector_recall
from services.files.disk_writes import whole_file

OnStep = Callable[[str], None]


async def ingest_step(
    client: GatewayClient, folder: RunFolder, processes: Mapping[str, str] = NO_PROCESSES
) -> IngestReport:
    """Loads the collection and writes ingest.json. `processes`: URLs by name, whose CPU time is written with it."""
    experiment = folder.experiment
    made_from = folder.hashes("experiment.json")
    dataset = await in_thread(dataset_of, folder)
    async with process_reader(processes) as read:
        before = await read()
        report = await ingest(client, experiment, dataset)
        costs = costs_between(before, await read())
    folder.write("ingest.json", report.model_copy(update={"made_from": made_from, "costs": costs}))
    for backend, loaded in report.backends.items():
        say(f"{backend}: {loaded.indexed} indexed, {loaded.unchanged} unchanged, {loaded.encoded} encoded")
    for line in report.unread():
        say(line)
    say(f"{report.generation}: {report.documents} documents, {report.stripped_characters} characters stripped")
    return report


async def rank_step(
    client: GatewayClient,
    folder: RunFolder,
    counters: MachineCounters | None = None,
    processes: Mapping[str, str] = NO_PROCESSES,
) -> RankReport:
    """Sends every query through every arm; writes manifest.json, answers/, runs/, recall.json and, last, rank.json.

    `counters`: of the machine, of tests. `processes`: URLs by name, whose cost is written to costs.json beside the
    sizes of the indexes.
    """
    with folder.locked():
        experiment = folder.experiment
        dataset, view, arms, queries, compared, manifest = await prepare_run(client, folder)
        begin_ranking(folder, manifest)
        folder.point_latest_here()
        await rank(client, experiment, arms, dataset, queries, folder, counters)
        costs = await pipeline_costs(client, experiment, dataset, queries.measured, arms, processes)
        folder.write(COSTS, costs)
        folder.write("recall.json", await vector_recall(client, experiment, dataset, view, arms))
        ranked = [
            RankedArm(name=arm.name, fingerprint=arm.pipeline.fingerprint, preset=arm.preset, pipeline=arm.pipeline)
            for arm in arms
        ]
        return write_rank_report(folder, queries, ranked, experiment.ranking_depth, compared, experiment.timed_top)


def quality_step(folder: RunFolder, metrics: Sequence[str] | None = None, added: Sequence[Path] = ()) -> QualityReport:
    """Measures the run files; writes quality.json and quality/<arm>.jsonl.

    `metrics`: others than the experiment's. `added`: qrels files that are merged over the dataset's judgments.
    """
    experiment, ranked = folder.experiment, folder.read("rank.json", RankReport)
    merged = judgments_with_added(folder, added)
    judgments, own = merged.grades, judgments_of(folder) if added else {}
    arms, figures_of, not_judged, differing = {}, {}, {}, {}
    before, after = {}, {}
    # The first figures in a new environment wait for numba, which compiles what ranx calls.
    say(f"Measuring quality: {len(ranked.arms)} pipelines; the first run on a machine takes longer ...")
    for arm in ranked.arms:
        rankings, records = read_run(folder.run_file(arm.name)), tuple(read_answers(folder.answers(arm.name)))
        answers = arm_answers(records, ranked.timed_top, ranked.depth)
        names = metrics or experiment.metrics
        figures = within_depth(measure_answers(judgments, answers, rankings, ranked.queries, names), ranked.depth)
        arms[arm.name] = means(figures)
        figures_of[arm.name] = quality_figures(judgments, answers, figures, ranked.queries)
        differing[arm.name] = answers.differing
        not_judged[arm.name] = len(rankings.keys() - set(ranked.queries))
        if added:
            before[arm.name], after[arm.name] = (
                means(
                    within_depth(
                        measure_answers(grades, answers, rankings, ranked.queries, CHANGE_METRICS), ranked.depth
                    )
                )
                for grades in (own, judgments)
            )
        with whole_file(writable(folder.per_query(arm.name))) as file:
            for query in ranked.queries:
                values = {metric: figures[metric][query] for metric in figures}
                file.write(QueryFigures(query=query, figures=values).model_dump_json() + "\n")
    files = [file(arm.name) for arm in ranked.arms for file in (folder.run_file, folder.answers, folder.per_query)]
    report = QualityReport(
        made_from=folder.hashes("rank.json", *files),
        arms=arms,
        figures=figures_of,
        judged=len(ranked.queries),
        run_queries_not_judged=not_judged,
        deep_differs=differing,
        added_judgments=JudgmentChange(files=merged.origin.added, before=before, after=after) if added else None,
    )
    folder.write("quality.json", report)
    say(f"Measured {len(arms)} run files of {experiment.name}")
    return report


def measure_again(folder: RunFolder, metrics: Sequence[str] | None = None, added: Sequence[Path] = ()) -> QualityReport:
    """Runs `quality_step`, and attributes losses again where they were attributed: both are by the same judgments.

    Asks nothing. Candidates of an earlier ranking are not used, and `report_step` refuses what was made from them.
    """
    quality = quality_step(folder, metrics, added)
    if folder.has(ATTRIBUTION):
        try:
            attribution(folder)
        except EvaluationError as error:
            say(f"Losses were not attributed again: {error}")
    return quality


async def expect_pipelines(client: GatewayClient, experiment: Experiment) -> None:
    """Raises GatewayError for a pipeline that the gateway does not serve, before the collection is loaded for it."""
    for pipeline in experiment.pipelines:
        if isinstance(pipeline, str):
            await client.pipeline(pipeline)


async def evaluate(
    client: GatewayClient,
    folder: RunFolder,
    on_step: OnStep = lambda step: None,
    processes: Mapping[str, str] = NO_PROCESSES,
) -> Report:
    """Runs all steps, and calls `on_step` with the name of each. `processes`: as of `rank_step`."""
    with folder.kept():
        on_step("ingest")
        await expect_pipelines(client, folder.experiment)
        await ingest_step(client, folder, processes)
        on_step("rank")
        await rank_step(client, folder, processes=processes)
        # In a thread: reading and computing must not block the service's event loop.
        on_step("quality")
        await in_thread(quality_step, folder)
        if folder.experiment.load is not None:
            on_step("load")
            await load_step(client, folder, processes=processes)
        on_step("report")
        return await in_thread(report_step, folder)


async def evaluate_again(
    client: GatewayClient, first: RunFolder, times: int, processes: Mapping[str, str] = NO_PROCESSES
) -> list[tuple[RunFolder, Report]]:
    """Runs all steps in `first`, then `times` - 1 times those after loading, each time in a new folder."""
    say(f"Run 1 of {times}: {first.path}")
    done = [(first, await evaluate(client, first, processes=processes))]
    for number in range(2, times + 1):
        folder = RunFolder.create(first.path.parent, first.experiment)
        say(f"Run {number} of {times}: {folder.path}")
        await rank_step(client, folder, processes=processes)
        await in_thread(quality_step, folder)
        done.append((folder, await in_thread(report_step, folder)))
    return done
