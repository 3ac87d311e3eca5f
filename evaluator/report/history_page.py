"""Renders the history of an experiment for the terminal. Pure; leaves the comparisons to `evaluator.report.history`."""

from collections.abc import Iterator

from evaluator.comparison.verdict import PairedComparison
from evaluator.metrics.metric_table import parse_metric
from evaluator.pages.markdown_table import aligned
from evaluator.report.history import ExperimentList, HistoryEntry, HistoryReport, PipelineHistory
from evaluator.runs.latency import DOUBTFUL


def render_history(report: HistoryReport) -> str:
    """Renders a table a pipeline, and the sentences about its last run."""
    parts = [part for found in report.pipelines for part in _pipeline(found, report.metric)]
    parts += [f"Not listed: {run}: {reason}" for run, reason in report.left_out.items()]
    return "\n\n".join(parts)


def render_experiments(found: ExperimentList) -> str:
    """Renders a table of experiments, with their number of runs and the last one."""
    rows = [[one.experiment, str(len(one.runs)), one.runs[-1]] for one in found.experiments]
    return aligned([["experiment", "runs", "last run"], *rows]) if rows else "No run has a report."


def _pipeline(found: PipelineHistory, metric: str) -> Iterator[str]:
    label = f"{found.pipeline} ({found.preset})" if found.preset else found.pipeline
    kind = (", imported" if found.imported else "") + (", caches on" if found.caches else "")
    yield (f"{label}{kind}: {found.dataset}, split {found.split}, {found.queries} queries, rankings {found.depth} deep")
    head = [
        "started",
        "commit",
        "fingerprint",
        parse_metric(metric).label(found.depth),
        "against the one before",
        "against the best",
        "against the first",
    ]
    rows = [[*head, "p50 ms", "p95 ms", "run"]]
    rows += [
        [
            entry.started_utc,
            _commit(entry),
            entry.fingerprint,
            _figure(entry.quality.get(metric), 4),
            *(_verdict(entry, one) for one in (entry.against_previous, entry.against_best, entry.against_first)),
            entry.p50_ms.cell(),
            entry.p95_ms.cell(),
            entry.run,
        ]
        for entry in found.entries
    ]
    yield aligned(rows)
    if any(entry.timing_valid is False for entry in found.entries):
        yield f"{DOUBTFUL}: times that are not valid (the report of the run says why)."
    last = found.entries[-1]
    compared = (last.against_previous, last.against_best, last.against_first)
    # The one before may be the best or the first too: each sentence once.
    yield from dict.fromkeys(one.sentence for one in compared if one)


def _commit(entry: HistoryEntry) -> str:
    return f"{(entry.commit or 'unknown')[:8]}{' + changes' if entry.dirty else ''}"


def _verdict(entry: HistoryEntry, compared: PairedComparison | None) -> str:
    if not entry.valid:
        return "not valid"
    return f"{compared.outcome} {compared.difference:+z.4f}" if compared else ""


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
