"""Attributes the losses of a run: asks for candidates, judges every relevant document, writes the files."""

from evaluator.attribution.attribution_page import attribution_page
from evaluator.attribution.attribution_report import ATTRIBUTION, ArmFates, AttributionReport
from evaluator.attribution.candidates import CANDIDATES, LINES, candidates_of
from evaluator.attribution.collect import collect
from evaluator.client.client import GatewayClient
from evaluator.pages.step_page import write_charts, write_page
from evaluator.progress import in_thread
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.runs.trec_runs import read_run
from evaluator.steps.prepared_run import expect_own_run
from evaluator.steps.rank import RankReport
from evaluator.steps.run_judgments import judgments_as_measured
from services.files.disk_writes import write_whole

TOP = 10


async def attribute_step(client: GatewayClient, folder: RunFolder, top: int = TOP) -> AttributionReport:
    """Asks once more for every query's candidates, then attributes. `top`: hits of an answer that count."""
    expect_own_run(folder)
    folder.read("rank.json", RankReport)  # the answers that are explained
    judgments_as_measured(folder)  # refused before queries are sent rather than after
    await collect(client, folder, top)
    return await in_thread(attribution, folder)


def attribution(folder: RunFolder) -> AttributionReport:
    """Judges every relevant document from the candidates; writes attribution.json, its page and attribution/."""
    collected, lines = candidates_of(folder)
    measured, ranked = judgments_as_measured(folder), folder.read("rank.json", RankReport)
    judgments = measured.grades
    arms = {name: ArmFates(name, pipeline, collected.top) for name, pipeline in collected.pipelines.items()}
    for line in lines:
        for fates in arms.values():
            fates.add(line, judgments.get(line.query, {}))
    metric = f"nDCG@{collected.top}"
    report = AttributionReport(
        made_from=folder.hashes("rank.json", "quality.json", CANDIDATES, LINES),
        experiment=folder.experiment.name,
        dataset=folder.experiment.dataset_name,
        judgments=measured.origin,
        metric=metric,
        top=collected.top,
        queries=collected.queries,
        failed=collected.failed,
        arms={
            name: fates.attribution(judgments, ranked.queries, metric, read_run(folder.run_file(name)))
            for name, fates in arms.items()
        },
    )
    for name, fates in arms.items():
        path = writable(folder.path / "attribution" / f"{name}.jsonl")
        write_whole(path, "".join(f"{fate.model_dump_json()}\n" for fate in fates.lines))
    folder.write(ATTRIBUTION, report)
    page = attribution_page(report)
    write_charts(folder, "attribution", page.svgs)
    write_page(folder, "attribution", page)
    return report
