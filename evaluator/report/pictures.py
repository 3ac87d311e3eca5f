"""Makes the pictures of a run for a document outside its folder: two charts, and a page with their tables.

Each SVG has a light and a dark look and a background of its own, so that it is readable on any page.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from evaluator.command_line import command_line
from evaluator.comparison.differences_chart import PairDifferences, differences_chart
from evaluator.errors import EvaluationError
from evaluator.pages.markdown_page import markdown_parts, wrapped
from evaluator.pages.page_blocks import Block, ChartImage, Heading, Prose, Table, Verdict
from evaluator.report.origin_section import origin_rows
from evaluator.report.quality_latency_chart import quality_latency_chart
from evaluator.report.quality_section import difference_rows, pair_differences, pipeline_rows
from evaluator.report.report import Report
from evaluator.runs.run_folder import RunFolder
from services.files.disk_writes import write_whole

QUALITY_LATENCY = "quality-latency.svg"
DIFFERENCES = "differences.svg"
PAGE = "README.md"


def write_pictures(folder: RunFolder, pipeline: str, to: Path) -> Path:
    """Writes the pictures of a run and their page, and returns the path of the page.

    `pipeline`: the one whose differences from the baseline are drawn. Raises EvaluationError as `pictures`.
    """
    files = pictures(folder.name, folder.read("report.json", Report), pipeline)
    to.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_whole(to / name, content)
    return to / PAGE


def pictures(run: str, report: Report, pipeline: str) -> Mapping[str, str]:
    """Returns the files by name.

    Raises EvaluationError for a run that is not valid, whose times are not, or that lacks such a pipeline.
    """
    pairs = {pair.compared.second: pair for pair in pair_differences(report)}
    if not report.valid:
        raise EvaluationError(f"{run} is not a valid run, so no picture is made of it: {'; '.join(report.warnings)}")
    if pipeline not in pairs:
        raise EvaluationError(
            f"{run} compares no {pipeline} with its baseline {report.set_against}; it has {', '.join(pairs) or '–'}"
        )
    against_latency, differences = quality_latency_chart(report), differences_chart([pairs[pipeline]])
    if against_latency is None or not report.timing_valid:
        reasons = "; ".join(report.timing_reasons) or "none were taken"
        raise EvaluationError(f"the times of {run} do not hold: {reasons}; measure again on a quiet machine")
    if differences is None:
        raise EvaluationError(f"{run} is of a release without differences; run `{command_line('report')}` on it again")
    page = "\n\n".join(map(wrapped, markdown_parts(_blocks(run, report, pairs[pipeline]))))
    return {QUALITY_LATENCY: against_latency, DIFFERENCES: differences, PAGE: f"# Pictures of a run\n\n{page}\n"}


def _blocks(run: str, report: Report, pair: PairDifferences) -> Iterator[Block]:
    against = f"{pair.compared.second} against {pair.compared.first}"
    yield Prose("All files of this folder are made by")
    yield Prose(f"```bash\n{command_line('pictures', run, pair.compared.second, '--to', 'DIR')}\n```")
    yield Table("origin", "Origin of the figures", _origin(run, report))
    yield Heading("Quality against latency")
    yield ChartImage(QUALITY_LATENCY, "Quality against latency of each pipeline")
    yield Table("pipelines", "Quality and latency of each pipeline", pipeline_rows(report))
    yield Heading(f"{against}, query by query")
    yield ChartImage(DIFFERENCES, f"Differences of {against}, query by query")
    yield Table("differences", f"Differences of {against}", difference_rows([pair]))
    yield Verdict(pair.compared.sentence)


def _origin(run: str, report: Report) -> list[list[str]]:
    """Returns the rows of the report without its command, which names places of the machine."""
    header, *rows = origin_rows(report)
    queries = f"{report.sample} drawn with seed {report.seed}" if report.sample else "all judged ones"
    collection = f"{report.dataset}, split {report.split}, {report.counts.documents} documents; queries: {queries}"
    return [header, ["run", f"`{run}`"], ["collection", collection], *(row for row in rows if row[0] != "command")]
