"""Reads what pipelines and processes took from the reports of runs, for table 3 of the paper."""

from collections.abc import Iterator, Mapping

from evaluator.analyses.analysed_runs import AnalysedRun
from evaluator.analyses.analysis_report import ProcessFigures, ServedFigures
from evaluator.errors import EvaluationError
from evaluator.report.run_report import Report


def served_figures(runs: Mapping[str, AnalysedRun]) -> dict[str, ServedFigures]:
    """Returns the figures by pipeline, of those whose run has a report and was not imported."""
    found = {}
    for name, run in runs.items():
        report = _report(run)
        outcome = None if report is None else report.pipelines.get(name)
        if outcome is not None and outcome.imported is None:
            found[name] = ServedFigures(
                p50_ms=outcome.latency_ms.p50.unchecked_ms,
                p95_ms=outcome.latency_ms.p95.unchecked_ms,
                times_hold=outcome.latency_ms.valid is not False,
                cpu_ms=None if outcome.cost is None else outcome.cost.cpu_ms,
                index_bytes=outcome.index_bytes,
            )
    return found


def process_figures(runs: Mapping[str, AnalysedRun]) -> Iterator[ProcessFigures]:
    """Yields the figures of each named process of each run."""
    for run in {one.folder.path: one for one in runs.values()}.values():
        report = _report(run)
        if report is None:
            continue
        memory = {
            name: one.memory_bytes
            for outcome in report.pipelines.values()
            if outcome.cost is not None
            for name, one in outcome.cost.processes.items()
        }
        for name, held in memory.items():
            yield ProcessFigures(
                run=run.folder.name,
                process=name,
                cpu_ms_a_document=None if report.ingest is None else report.ingest.cpu_ms_a_document(name),
                memory_bytes=held,
            )


def _report(run: AnalysedRun) -> Report | None:
    """Returns the report of a run; None: there is none, or a file that it was made from changed since."""
    try:
        return run.folder.read("report.json", Report)
    except EvaluationError:
        return None
